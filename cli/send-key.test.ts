import type { Duplex } from 'node:stream'
import { expect, test } from 'vitest'
import { refusal, sessionCluster } from '../test/cli/sessions.ts'
import { runVm } from '../test/cli/world.ts'
import { until } from '../test/until.ts'
import { combination, typing } from './key.ts'

/** Plays a VNC server; resolves with the keys: `+` pressed, `-` released. */
async function play(server: Duplex, methods: readonly number[] = [1]): Promise<string[]> {
  const read = async (bytes: number): Promise<Buffer> => until(() => (server.read(bytes) as Buffer | null) ?? undefined)
  server.write('RFB 003.008\n')
  await read(12)
  server.write(Buffer.from([methods.length, ...methods]))
  if (!methods.includes(1)) return []
  await read(1)
  server.write(Buffer.alloc(4))
  expect([...(await read(1))]).toEqual([1])
  const init = Buffer.alloc(24)
  init.writeUInt32BE(4, 20)
  server.write(Buffer.concat([init, Buffer.from('QEMU')]))
  const keys: string[] = []
  for (;;) {
    const [type] = await read(1)
    if (type !== 4) break
    const event = await read(7)
    keys.push(`${event[0] === 1 ? '+' : '-'}${event.readUInt32BE(3).toString(16)}`)
  }
  await read(9)
  server.write(Buffer.alloc(16))
  return keys
}

test('keys are pressed together and released in the reverse order', async () => {
  const { cluster, sessions } = sessionCluster()
  const running = runVm(['send-key', 'web', 'ctrl-alt-delete', 'enter', '--text', 'A'], {
    cluster: async () => cluster,
  })
  await until(() => sessions.length === 1)
  const keys = await play(sessions[0]!.guest)
  expect(keys.join(' ')).toBe('+ffe1 +41 -41 -ffe1 +ffe3 +ffe9 +ffff -ffff -ffe9 -ffe3 +ff0d -ff0d')
  expect(await running).toEqual({ code: 0, out: '', err: '' })
})

test('a screen with a password is refused', async () => {
  const { cluster, sessions } = sessionCluster()
  const running = runVm(['send-key', 'web', 'a'], { cluster: async () => cluster })
  await until(() => sessions.length === 1)
  await play(sessions[0]!.guest, [2])
  expect(await running).toMatchObject({ code: 2, err: expect.stringContaining('requires a password') })
})

test.each([
  [['web', 'a'], 1, 'Error from server (Conflict): the VM has no screen\n'],
  [['web'], 2, 'error: a key is required, for example ctrl-alt-delete, or --text TEXT\n'],
  [['web', 'ctrl-shft-a'], 2, 'error: "ctrl-shft-a" has no key "shft"; keys are single characters and ctrl, alt'],
])('%j is refused', async (words, code, err) => {
  const { cluster } = sessionCluster({ refuse: () => refusal(409, 'Conflict', 'the VM has no screen') })
  const result = await runVm(['send-key', ...words], { cluster: async () => cluster })
  expect(result).toMatchObject({ code, err: expect.stringContaining(err) })
})

test('a text is typed on a US keyboard', () => {
  expect(typing('a\n!')).toEqual([[0x61], [0xff0d], [0xffe1, 0x21]])
  expect(() => typing('ä')).toThrow('"ä" is not on a US keyboard')
  expect(combination('Ctrl-C')).toEqual([0xffe3, 0x63])
})
