import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../apiserver/free-port.ts'
import { eventually, until } from '../until.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { confine, libvirtRootfs, makeRunDirectory } from './rootfs.ts'
import { smallVm } from './vm.ts'

/** passt replaces itself with `passt.avx2` if the CPU has AVX2. */
const commands = ['passt', 'passt.avx2']
const passtsOf = async (launcher: RunningLauncher) =>
  (await Promise.all(commands.map((command) => launcher.pids(command)))).flat()

const vmWith = (port: number) => {
  const portForwards = [{ proto: 'tcp', ranges: [{ start: port }] }]
  const backend = { type: 'passt' }
  return smallVm({ devices: { interfaces: [{ type: 'user', backend, model: { type: 'virtio' }, portForwards }] } })
}

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
const protocolOf = (frame: Buffer) => (frame.readUInt16BE(12) === 0x0800 ? frame[23] : undefined)
const tcp = 6
const isTcp = (frame: Buffer) => protocolOf(frame) === tcp

/** As a guest that has the address that `question` asks for. */
function answerTo(question: Buffer): Buffer {
  const [sender, senderIp, targetIp] = [question.subarray(22, 28), question.subarray(28, 32), question.subarray(38, 42)]
  const frame = Buffer.concat([sender, mac, arp, Buffer.of(2), mac, targetIp, sender, senderIp])
  return Buffer.concat([Buffer.of(0, 0, 0, frame.length), frame])
}

/** Starts passt alone. `connectGuest` connects to it as QEMU does. */
async function startPasst(port: number) {
  const rootfs = libvirtRootfs()
  const directory = await makeRunDirectory(rootfs)
  const ports = `--tcp-ports ${port} --udp-ports ${port}`
  const command = `passt --foreground --one-off --socket ${directory.inside}/passt.sock ${ports}`
  const pod = confine({ rootfs, directory, script: `exec ${command}` })
  onTestFinished(() => pod.stop())
  const connectGuest = async () => {
    const guest = await until(() => connected(join(directory.outside, 'passt.sock')))
    onTestFinished(() => void guest.destroy())
    return guest
  }
  return { connectGuest }
}

function startClient(port: number, address: string): Socket {
  const client = connect(port, address)
  client.on('error', () => {})
  onTestFinished(() => void client.destroy())
  return client
}

const errorOf = (client: Socket) =>
  new Promise<string | undefined>((resolve) => {
    client.on('error', (error: NodeJS.ErrnoException) => resolve(error.code))
    client.on('close', () => resolve(undefined))
  })

const own = Object.values(networkInterfaces()).flatMap((all) => all ?? [])
const [address = ''] = own.filter(({ family, internal }) => family === 'IPv4' && !internal).map((one) => one.address)

test('passt resets connections until QEMU has connected', async () => {
  const port = await freePort()
  const { connectGuest } = await startPasst(port)
  const codes: (string | undefined)[] = []
  await until(async () => {
    codes.push(await errorOf(startClient(port, address)))
    return codes.at(-1) === 'ECONNRESET' ? true : undefined
  })
  // Until it listens.
  expect(new Set(codes.slice(0, -1))).toEqual(new Set(codes.length > 1 ? ['ECONNREFUSED'] : []))
  const guest = await connectGuest()
  // passt might accept the first clients before it accepts the guest, whose connection waits in its backlog, and then
  // it resets them.
  const clients = setInterval(() => startClient(port, address), 100)
  onTestFinished(() => clearInterval(clients))
  const protocols = new Set<number | undefined>()
  for await (const frame of framesOf(guest)) {
    protocols.add(protocolOf(frame))
    if (isTcp(frame)) break
  }
  expect(protocols).toContain(tcp)
})

test('passt outlives a guest that does not read while clients connect', async () => {
  const port = await freePort()
  const { connectGuest } = await startPasst(port)
  const guest = await connectGuest()
  guest.pause()
  const sender = createSocket('udp4')
  onTestFinished(() => void sender.close())
  // More than fit into the socket between QEMU and passt. After larger ones, passt waits for room.
  const datagram = Buffer.alloc(500)
  for (let sent = 0; sent < 60_000; sent += 1) {
    await new Promise<void>((done) => sender.send(datagram, port, address, () => done()))
  }
  const lost = startClient(port, address)
  await once(lost, 'connect')
  // passt has accepted it by then, and tries to send it to the guest.
  await setTimeout(500)

  const protocols = new Set<number | undefined>()
  for await (const frame of framesOf(guest)) {
    if (protocols.size === 0) startClient(port, address)
    protocols.add(protocolOf(frame))
    if (isTcp(frame)) break
  }
  expect(protocols).toContain(tcp)
})

test('a new passt finds a guest that has not sent anything', async () => {
  const port = await freePort()
  const { connectGuest } = await startPasst(port)
  const guest = await connectGuest()

  const asked: string[] = []
  for await (const frame of framesOf(guest)) {
    if (isArp(frame)) {
      asked.push([...frame.subarray(38, 42)].join('.'))
      // A guest has one of the addresses.
      if (asked.length > 1) continue
      guest.write(answerTo(frame))
      startClient(port, address)
    } else if (isTcp(frame) && frame.subarray(0, 6).equals(mac)) break
  }
  expect(asked[0]).toBe(address)
})
