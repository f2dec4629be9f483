import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../apiserver/free-port.ts'
import { eventually, until } from '../until.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { confine, libvirtRootfs, makeRunDirectory } from './rootfs.ts'

/** passt replaces itself with `passt.avx2` if the CPU has AVX2. */
const commands = ['passt', 'passt.avx2']
const passtsOf = async (launcher: RunningLauncher) =>
  (await Promise.all(commands.map((command) => launcher.pids(command)))).flat()

const vmWith = (port: number) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'testvm', namespace: 'default', uid: '5b0c0f4e-6d2a-4c2b-9a53-000000000001' },
  spec: {
    domain: {
      type: 'qemu',
      memory: { unit: 'MiB', value: 32 },
      os: { type: { os: 'hvm', arch: 'x86_64', machine: 'pc' } },
      devices: {
        interfaces: [
          {
            type: 'user',
            backend: { type: 'passt' },
            model: { type: 'virtio' },
            portForwards: [{ proto: 'tcp', ranges: [{ start: port }] }],
          },
        ],
      },
    },
  },
})

async function isListening(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return true
  } catch {
    return false
  } finally {
    socket.destroy()
  }
}

test('passt listens for the guest without privileges, and is replaced when it is killed', async () => {
  const launcher = await startLauncher()
  onTestFinished(() => launcher.stop())
  const port = await freePort()
  expect((await launcher.put(vmWith(port))).phase).toBe('Running')

  const [pid = 0] = await passtsOf(launcher)
  const status = await readFile(`/proc/${pid}/status`, 'utf8')
  // Its own filter, which it installs after its isolation; the container's is a second one in a cluster.
  expect(status.match(/^(Uid|CapEff|NoNewPrivs|Seccomp):.*/gm)).toEqual([
    'Uid:\t107\t107\t107\t107',
    'CapEff:\t0000000000000000',
    'NoNewPrivs:\t1',
    'Seccomp:\t2',
  ])
  // Without this option, the guest would reach the loopback device of the pod.
  expect(await readFile(`/proc/${pid}/cmdline`, 'utf8')).toContain('--map-host-loopback\0none\0')
  expect(await isListening(port)).toBe(true)

  process.kill(pid, 'SIGKILL')
  await eventually('another passt listens', async () => {
    const [other] = await passtsOf(launcher)
    return other !== undefined && other !== pid && (await isListening(port))
  })
  expect(await launcher.report()).toMatchObject({ phase: 'Running' })
})

/** With `--one-off`, passt ends with its first connection. */
async function connected(path: string): Promise<Socket | undefined> {
  const socket = connect(path)
  return once(socket, 'connect').then(
    () => socket,
    () => undefined,
  )
}

/** The frames that passt sends on its socket, each after its length. */
async function* framesOf(socket: Socket): AsyncGenerator<Buffer, undefined> {
  let bytes = Buffer.alloc(0)
  for await (const chunk of socket) {
    bytes = Buffer.concat([bytes, chunk])
    while (bytes.length >= 4 && bytes.length >= 4 + bytes.readUInt32BE()) {
      const end = 4 + bytes.readUInt32BE()
      yield bytes.subarray(4, end)
      bytes = bytes.subarray(end)
    }
  }
}

const mac = Buffer.from('525400000001', 'hex')
const arp = Buffer.from('080600010800060400', 'hex')
const isArp = (frame: Buffer) => frame.subarray(12, 21).equals(arp)
const isTcp = (frame: Buffer) => frame.readUInt16BE(12) === 0x0800 && frame[23] === 6

/** As a guest that has the address that `question` asks for. */
function answerTo(question: Buffer): Buffer {
  const [sender, senderIp, targetIp] = [question.subarray(22, 28), question.subarray(28, 32), question.subarray(38, 42)]
  const frame = Buffer.concat([sender, mac, arp, Buffer.of(2), mac, targetIp, sender, senderIp])
  return Buffer.concat([Buffer.of(0, 0, 0, frame.length), frame])
}

test('a new passt finds a guest that has not sent anything', async () => {
  const [port, rootfs] = [await freePort(), libvirtRootfs()]
  const directory = await makeRunDirectory(rootfs)
  const command = `passt --foreground --one-off --socket ${directory.inside}/passt.sock --tcp-ports ${port}`
  const pod = confine({ rootfs, directory, script: `exec ${command}` })
  onTestFinished(() => pod.stop())
  const guest = await until(() => connected(join(directory.outside, 'passt.sock')))
  onTestFinished(() => void guest.destroy())

  const own = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
  const [address] = own.filter(({ family, internal }) => family === 'IPv4' && !internal).map((one) => one.address)
  const asked: string[] = []
  for await (const frame of framesOf(guest)) {
    if (isArp(frame)) {
      asked.push([...frame.subarray(38, 42)].join('.'))
      // A guest has one of the addresses.
      if (asked.length > 1) continue
      guest.write(answerTo(frame))
      const client = connect(port, address)
      client.on('error', () => {})
      onTestFinished(() => void client.destroy())
    } else if (isTcp(frame) && frame.subarray(0, 6).equals(mac)) break
  }
  expect(asked[0]).toBe(address)
})
