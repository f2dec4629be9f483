import { once } from 'node:events'
import { readFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { freePort } from '../apiserver/free-port.ts'
import { eventually } from '../until.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'

let launcher: RunningLauncher

afterEach(() => launcher.stop())

/** passt replaces itself with `passt.avx2` if the CPU has AVX2. */
const commands = ['passt', 'passt.avx2']
const passts = async () => (await Promise.all(commands.map((command) => launcher.pids(command)))).flat()

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
  launcher = await startLauncher()
  const port = await freePort()
  expect((await launcher.put(vmWith(port))).phase).toBe('Running')

  const [pid = 0] = await passts()
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
    const [other] = await passts()
    return other !== undefined && other !== pid && (await isListening(port))
  })
  expect(await launcher.report()).toMatchObject({ phase: 'Running' })
})
