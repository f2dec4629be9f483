import type { Duplex } from 'node:stream'
import { sleep, type Clock } from '../runtime/clock.ts'
import { Usage } from './failure.ts'

/** Guests lose keys that follow each other faster. */
const pressMs = 20
const noPassword = 1
const version = 'RFB 003.008\n'

/**
 * Presses combinations of keys, one after the other, at a VNC server, and waits until it has processed them.
 * @throws Usage if the server requires a password, or does not speak RFB
 */
export async function pressKeys(
  server: Duplex,
  combinations: readonly (readonly number[])[],
  clock: Clock,
): Promise<void> {
  const read = reader(server)
  if (!(await read(12)).toString('latin1').startsWith('RFB 003.')) throw new Usage('the screen does not speak RFB')
  server.write(version)
  const [count = 0] = await read(1)
  const methods = await read(count)
  if (!methods.includes(noPassword)) throw new Usage('the screen of the VM requires a password; use a VNC viewer')
  server.write(Buffer.from([noPassword]))
  if ((await read(4)).readUInt32BE(0) !== 0) throw new Usage('the screen of the VM refuses the connection')
  const isShared = 1
  server.write(Buffer.from([isShared]))
  const nameBytes = (await read(24)).readUInt32BE(20)
  if (nameBytes > 1024) throw new Usage('the screen does not speak RFB')
  await read(nameBytes)
  for (const keys of combinations) {
    for (const key of keys) server.write(keyEvent(key, true))
    await sleep(clock, pressMs)
    for (const key of keys.toReversed()) server.write(keyEvent(key, false))
    await sleep(clock, pressMs)
  }
  // It responds once it has processed everything before.
  server.write(Buffer.from([3, 0, 0, 0, 0, 0, 0, 1, 0, 1]))
  await read(1)
}

function keyEvent(key: number, isDown: boolean): Buffer {
  const message = Buffer.from([4, isDown ? 1 : 0, 0, 0, 0, 0, 0, 0])
  message.writeUInt32BE(key, 4)
  return message
}

/** Reads exactly so many bytes. @throws Usage if the stream ends before */
function reader(from: Duplex): (bytes: number) => Promise<Buffer> {
  let isOver = false
  let notify = () => {}
  const change = () => notify()
  from.on('readable', change).on('error', () => {})
  for (const event of ['end', 'close']) {
    from.on(event, () => {
      isOver = true
      change()
    })
  }
  return async (bytes) => {
    if (bytes === 0) return Buffer.alloc(0)
    for (;;) {
      const chunk: unknown = from.read(bytes)
      if (Buffer.isBuffer(chunk) && chunk.length === bytes) return chunk
      if (isOver) throw new Usage('the screen of the VM has closed the connection')
      await new Promise<void>((resolve) => (notify = resolve))
    }
  }
}
