import { execFile } from 'node:child_process'
import { chown, copyFile, mkdir, open } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DomainReport } from '../../runtime/launcher-api.ts'
import { eventually } from '../until.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { linuxDisk } from './linux-disk.ts'
import { uid as launcherUid } from './rootfs.ts'
import { volumeDisk } from './vm.ts'

/** A Linux with its agent, and a mounted file system on a claim. */
let launcher: RunningLauncher
const booting = 600_000

beforeAll(async () => {
  launcher = await startLauncher()
  await mkdir(join(launcher.images, 'root/disk'), { recursive: true })
  await copyFile(linuxDisk(), join(launcher.images, 'root/disk/disk.qcow2'))
  for (const name of ['root', 'data', 'seed']) {
    const directory = join(await launcher.inPod('volumes'), name)
    await mkdir(directory)
    await chown(directory, launcherUid, launcherUid)
  }
  await launcher.put(vm)
})
afterAll(() => launcher?.stop())

/** Differs from run to run. */
const script = `n=$(cat /n 2>/dev/null || echo 0); echo $((n + 1)) >/n
case $n in 0) echo "not yet: $1" >&2; exit 3;; 1) kill -9 $$;; 2) head -c 5000000 /dev/zero;; *) echo up;; esac`

const runcmd = ['mkfs.ext4 -q /dev/vdb', 'mkdir -p /data', 'mount /dev/vdb /data']
const vm = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'testvm', namespace: 'default', uid: '5b0c0f4e-6d2a-4c2b-9a53-000000000019' },
  spec: {
    readinessProbe: { exec: { command: ['/bin/sh', '-c', script, 'a', '$0'] }, timeoutSeconds: 60 },
    livenessProbe: { exec: { command: ['/no/such'] }, timeoutSeconds: 60 },
    startupProbe: { exec: { command: ['sleep', '60'] }, timeoutSeconds: 10 },
    domain: {
      type: 'qemu',
      memory: { unit: 'MiB', value: 256 },
      os: { type: { os: 'hvm', arch: 'x86_64', machine: 'q35' } },
      features: { acpi: {} },
      devices: {
        serials: [{ type: 'pty' }],
        channels: [{ type: 'unix', target: { type: 'virtio', name: 'org.qemu.guest_agent.0' } }],
        disks: [
          volumeDisk('root', 'vda', 'qcow2'),
          volumeDisk('data', 'vdb'),
          {
            type: 'volume',
            device: 'cdrom',
            driver: { name: 'qemu', type: 'raw' },
            source: { volume: 'seed' },
            target: { dev: 'sda', bus: 'sata' },
          },
        ],
      },
    },
    volumes: [
      { name: 'root', image: { reference: 'disks/linux:1' } },
      { name: 'data', persistentVolumeClaim: { claimName: 'data', capacity: '32Mi', source: { empty: {} } } },
      {
        name: 'seed',
        cloudInit: { userData: `#cloud-config\nruncmd:\n${runcmd.map((line) => `- ${line}\n`).join('')}` },
      },
    ],
  },
}

/** Of the file system on the claim: whether its journal must be replayed. Linux clears this flag when it freezes it. */
async function needsRecovery(): Promise<boolean | undefined> {
  const file = await open(join(await launcher.inPod('volumes'), 'data/disk.img'))
  const { buffer } = await file.read(Buffer.alloc(1024), 0, 1024, 1024)
  await file.close()
  return buffer.readUInt16LE(0x38) === 0xef53 ? (buffer.readUInt32LE(0x60) & 4) !== 0 : undefined
}

const request = async (verb: 'freeze' | 'thaw', id: string) =>
  expect(await launcher.ask('POST', `/${verb}`, { id })).toMatchObject({ status: 202 })
const isOver = ({ frozen }: DomainReport) => frozen !== undefined && !frozen.state.endsWith('ing')

test('a guest writes its journal before it is frozen, and continues after it', async () => {
  await launcher.reported('its agent is connected', ({ agent }) => agent === 'connected', booting)
  await eventually('the file system is mounted', async () => (await needsRecovery()) === true, booting)
  // On a busy machine, an agent can need longer than libvirt waits for it, and a guest that is frozen be thawed first.
  for (let attempt = 1; ; attempt++) {
    const id = `snapshot-${attempt}`
    await request('freeze', id)
    const { frozen } = await launcher.reported('it is frozen, or failed to', (report) => isOver(report))
    const isDirty = await needsRecovery()
    const { frozen: still } = await launcher.report()
    await request('thaw', id)
    const isDone = ({ frozen: one }: DomainReport) => one?.state !== 'Frozen' && one?.state !== 'Thawing'
    const { frozen: end } = await launcher.reported('it is thawed', isDone)
    if (frozen?.state !== 'Frozen' || still?.state !== 'Frozen' || end?.state !== 'Thawed') {
      if (attempt < 10) continue
    }
    expect([frozen?.state, isDirty, end]).toEqual(['Frozen', false, { id, state: 'Thawed' }])
    break
  }
  await eventually('it writes again', async () => (await needsRecovery()) === true, 240_000)
  await launcher.reported('its agent answers', ({ agent, phase }) => agent === 'connected' && phase === 'Running')
})

/** What the kubelet runs in the pod: the exit code and the output. */
const probed = (name: string) =>
  new Promise<readonly [unknown, string]>((resolve) => {
    const program = join(import.meta.dirname, '../../images/launcher/guest-probe')
    const env = { ...process.env, VIRTSET_SOCKET_DIR: dirname(launcher.socket) }
    execFile(program, [name], { env }, (error, stdout) => resolve([error?.code ?? 0, stdout]))
  })

test('probes by commands run in the guest', async () => {
  await launcher.reported('its agent is connected', ({ agent }) => agent === 'connected', booting)
  expect(await probed('readinessProbe')).toEqual([1, 'the command exited with status 3: not yet: $0\n'])
  expect(await probed('readinessProbe')).toEqual([1, 'the command was ended by signal 9, and wrote nothing\n'])
  expect(await probed('readinessProbe')).toEqual([
    1,
    expect.stringMatching(/^the QEMU guest agent refuses: cannot read how the command ended, .* written too much: ./),
  ])
  // On a busy machine, the agent needs longer to send all of it.
  await eventually('the agent answers again', async () => (await probed('readinessProbe'))[0] === 0, 240_000)
  expect(await probed('readinessProbe')).toEqual([0, 'up\n'])
  expect(await probed('livenessProbe')).toEqual([
    1,
    expect.stringMatching(/^the QEMU guest agent refuses: .*\/no\/such/),
  ])
  expect(await probed('startupProbe')).toEqual([
    1,
    expect.stringMatching(/^the command did not end within 10 s and continues in the guest as process \d+$/m),
  ])
  expect(await probed('startupProbe')).toEqual([
    1,
    expect.stringMatching(/^the command of an earlier probe still runs in the guest, as process \d+ for \d+ s$/m),
  ])
})
