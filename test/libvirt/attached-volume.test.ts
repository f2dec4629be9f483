import { execFile, execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { chown, copyFile, link, mkdir, open, readdir, rm, stat, truncate, writeFile } from 'node:fs/promises'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { attachmentSocketName } from '../../api/attachment-path.ts'
import { apiVersion } from '../../api/object.ts'
import type { VirtualMachine, VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { createCandidates } from '../../presets/candidates.ts'
import type { DomainReport, VolumeRequest } from '../../runtime/launcher-api.ts'
import { eventually } from '../until.ts'
import { startAttachedPod, type AttachedPod } from './attached-pod.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { linuxDisk } from './linux-disk.ts'
import { libvirtRootfs, makeOwned, makeRunDirectory, uid as launcherUid } from './rootfs.ts'

const uid = '5b0c0f4e-6d2a-4c2b-9a53-000000000030'
const podUIDs = [1, 2, 3].map((number) => `5b0c0f4e-6d2a-4c2b-9a53-00000000010${number}`)
const bootMs = 600_000

function vm(
  spec: Omit<VirtualMachineSpec, 'domain'>,
  devices: VirtualMachineSpec['domain']['devices'],
): VirtualMachine {
  const given: VirtualMachine = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { name: 'testvm', namespace: 'default', uid, generation: 1 },
    spec: {
      ...spec,
      domain: {
        type: 'qemu',
        memory: { unit: 'MiB', value: 256 },
        os: { type: { os: 'hvm', arch: 'x86_64', machine: 'q35' } },
        features: { acpi: {} },
        devices: devices ?? {},
      },
    },
  }
  const result = complete(given, {
    presets: createCandidates([]),
    namespace: { name: 'default', labels: {} },
    capabilities,
    entropy: { uid },
  })
  if (result.outcome === 'refused') throw new Error(JSON.stringify(result.causes))
  return result.vm
}

const requestFor = (name: string, podUID: string, more: Partial<VolumeRequest> = {}): VolumeRequest => ({
  name,
  claimName: `claim-${name}`,
  podUID,
  dev: 'sda',
  bus: 'scsi',
  ...more,
})

/** Requests these volumes, and waits until the report is like this: `NAME PHASE REASON`. */
async function request(
  launcher: RunningLauncher,
  volumes: readonly VolumeRequest[],
  ...expected: readonly string[]
): Promise<DomainReport> {
  expect(await launcher.ask('PUT', '/volumes', { volumes })).toMatchObject({ status: 202 })
  return reported(launcher, ...expected)
}

const reported = (launcher: RunningLauncher, ...expected: readonly string[]) =>
  launcher.reported(
    `volumes: ${expected.join(', ')}`,
    ({ volumes = [] }) =>
      volumes.map(({ name, phase, reason = '' }) => `${name} ${phase} ${reason}`.trim()).join() === expected.join(),
  )

const disksOf = ({ domain }: DomainReport): string[] =>
  [...JSON.stringify(domain?.['devices']).matchAll(/"name":"(ua-attached-[^"]+)"/g)].map((found) => found[1] ?? '')

async function podFor(podUID: string, ...more: [Parameters<typeof startAttachedPod>[1]?]): Promise<AttachedPod> {
  const pod = await startAttachedPod(podUID, ...more)
  onTestFinished(() => pod.stop())
  return pod
}

async function launcherOf(machine: VirtualMachine): Promise<RunningLauncher> {
  const launcher = await startLauncher()
  onTestFinished(() => launcher.stop())
  if (machine.spec.volumes !== undefined) {
    await mkdir(join(launcher.images, 'root/disk'), { recursive: true })
    await copyFile(linuxDisk(), join(launcher.images, 'root/disk/disk.qcow2'))
    for (const { name } of machine.spec.volumes) {
      const directory = join(await launcher.inPod('volumes'), name)
      await mkdir(directory)
      await chown(directory, launcherUid, launcherUid)
    }
  }
  expect(await launcher.put(machine)).toMatchObject({ phase: 'Running' })
  return launcher
}

test('a claim is attached and detached, also by another libvirtd, and its pod ends only without a guest', async () => {
  const [first = '', second = ''] = podUIDs
  const launcher = await launcherOf(vm({}, { controllers: [{ type: 'scsi', model: 'virtio-scsi' }] }))
  const pod = await podFor(first)
  const volume = requestFor('one', first, { serial: 'SERIAL' })
  await request(launcher, [volume], 'one Attaching')
  await pod.place(launcher)
  const attached = await reported(launcher, 'one Attached')
  expect(disksOf(attached)).toEqual(['ua-attached-one'])
  expect((await stat(join(pod.claim, 'disk.img'))).size).toBe(32 * 2 ** 20)

  // A lock of the whole disk would conflict with QEMU's own on NFS and SMB.
  execFileSync('flock', ['--nonblock', join(pod.claim, 'disk.img'), 'true'])

  // The pod does not end while the guest has the disk, and has locked the claim: a second one ends, and says why.
  await launcher.signal('libvirtd', 'SIGKILL')
  await pod.terminate()
  const rival = await podFor(second, { claim: pod.claim })
  const ended = [pod.exitCode.then(() => 'the pod'), rival.exitCode.then((code) => `the second with ${code}`)]
  expect(await Promise.race(ended)).toBe('the second with 1')
  expect(rival.log()).toContain('another VM uses the disk in the claim')

  await request(launcher, [])
  expect(disksOf(await launcher.report())).toEqual([])
  expect(await pod.exitCode).toBe(0)
  // The pod could still serve the claim.
  expect(await readdir(join(dirname(launcher.socket), 'volumes'))).toEqual([`${first}.sock`])
})

test('a pod serves a second connection of QEMU, which keeps that of an attach during which libvirtd ended', async () => {
  const pod = await podFor(podUIDs[0] ?? '')
  await pod.listens()
  const greetings = []
  for (let count = 0; count < 2; count += 1) {
    const client = connect(join(dirname(pod.claim), 'socket', attachmentSocketName))
    onTestFinished(() => void client.destroy())
    const [greeting]: Buffer[] = await once(client, 'data')
    greetings.push(greeting?.toString('latin1', 0, 8))
  }
  expect(greetings).toEqual(['NBDMAGIC', 'NBDMAGIC'])
})

test('what libvirt refuses is reported, and what is not there is waited for', async () => {
  const [first = ''] = podUIDs
  const launcher = await launcherOf(vm({}, { controllers: [{ type: 'usb', model: 'none' }] }))
  const pod = await podFor(first)
  await pod.place(launcher)
  const refused = await request(
    launcher,
    [requestFor('one', first, { dev: 'sdb', bus: 'sata' })],
    'one Failed AttachRefused',
  )
  expect(refused.volumes?.[0]?.message).toContain("disk bus 'sata' cannot be hotplugged")
  await request(launcher, [])
  // The guest has no operating system, which could release a disk on PCI.
  const virtio = requestFor('two', first, { dev: 'vdb', bus: 'virtio' })
  await request(launcher, [virtio], 'two Attached')
  await request(launcher, [], 'two Detaching GuestHoldsVolume')
})

/** A file that is the disk of claims: each pod sees it in a directory of its own. */
async function makeDisk(): Promise<string> {
  const directory = await makeDirectory()
  const path = join(directory, 'disk.img')
  await writeFile(path, '')
  await truncate(path, 2 ** 20)
  await chown(path, launcherUid, launcherUid)
  return path
}

async function makeDirectory(): Promise<string> {
  const { outside } = await makeRunDirectory(libvirtRootfs())
  onTestFinished(() => rm(outside, { recursive: true }))
  return outside
}

/** A pod that serves the disk to a guest that only reads. */
async function startReader(disk: string) {
  const directory = await makeDirectory()
  for (const name of ['socket', 'volume']) await makeOwned(join(directory, name))
  const claim = join(directory, 'volume')
  await link(disk, join(claim, 'disk.img'))
  const pod = await podFor(podUIDs[0] ?? '', { claim, env: { VIRTSET_READ_ONLY: 'yes' } })
  const ended = pod.exitCode.then((code) => `${code}: ${pod.log().trim()}`)
  return { pod, outcome: await Promise.race([ended, pod.listens().then(() => 'serves')]) }
}

/** A VM that has the disk as a volume. */
async function startOn(path: string, disk: object): Promise<DomainReport> {
  const launcher = await startLauncher()
  onTestFinished(() => launcher.stop())
  await link(path, join(await makeOwned(join(launcher.volumes, 'root')), 'disk.img'))
  const volumes = [{ name: 'root', persistentVolumeClaim: { claimName: 'data' } }]
  const target = { dev: 'vda', bus: 'virtio' } as const
  return launcher.put(vm({ volumes }, { disks: [{ type: 'volume', source: { volume: 'root' }, target, ...disk }] }))
}

test.each([
  [{}, 'another VM uses the disk in the claim'],
  [{ shareable: {} }, 'serves'],
  [{ readonly: {} }, 'serves'],
])('beside a VM with a disk %j, the pod of a guest that reads: %s', async (more, expected) => {
  const disk = await makeDisk()
  expect(await startOn(disk, more)).toMatchObject({ phase: 'Running' })
  expect((await startReader(disk)).outcome).toContain(expected)
})

test('while guests read a claim, no VM starts that writes to it', async () => {
  const disk = await makeDisk()
  const readers = [await startReader(disk), await startReader(disk)]
  expect(readers.map(({ outcome }) => outcome)).toEqual(['serves', 'serves'])
  expect(await startOn(disk, {})).toMatchObject({
    reason: 'startFailed',
    message: expect.stringContaining('volume "root": the disk of the claim "data" is in use by another VM or process'),
  })
  expect(await startOn(disk, { readonly: {} })).toMatchObject({ phase: 'Running' })
  for (const { pod } of readers) {
    await pod.terminate()
    expect(await pod.exitCode).toBe(0)
  }
})

// Fails until the guest has the disk, which may be a moment after the launcher has attached it.
const mount = `set -e
test -b /dev/sda
grep -q " /data " /proc/mounts || { mkfs.ext4 -q /dev/sda; mkdir -p /data; mount /dev/sda /data; }
echo "$(cat /data/word 2>/dev/null) $(cat /sys/block/sda/device/vpd_pg80 2>/dev/null | tr -d "\\0")"
echo word >/data/word
sync`

const exec = (command: string) => ({ exec: { command: ['/bin/sh', '-c', command] }, timeoutSeconds: 60 })

/** A Linux whose probes mount the disk, unmount it, and look for it. */
async function startLinux(devices: VirtualMachineSpec['domain']['devices']) {
  const machine = vm(
    {
      readinessProbe: exec(mount),
      startupProbe: exec('! grep -q " /data " /proc/mounts || umount /data'),
      livenessProbe: exec('ls /dev/sda'),
      volumes: [{ name: 'root', image: { reference: 'disks/linux:1' } }],
    },
    {
      serials: [{ type: 'pty' }],
      channels: [{ type: 'unix', target: { type: 'virtio', name: 'org.qemu.guest_agent.0' } }],
      controllers: [{ type: 'scsi', model: 'virtio-scsi' }],
      disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } }],
      ...devices,
    },
  )
  const launcher = await launcherOf(machine)
  const inGuest = (name: string) =>
    new Promise<readonly [unknown, string]>((resolve) => {
      const program = join(import.meta.dirname, '../../images/launcher/guest-probe')
      const env = { ...process.env, VIRTSET_SOCKET_DIR: dirname(launcher.socket) }
      execFile(program, [name], { env }, (error, stdout) => resolve([error?.code ?? 0, stdout]))
    })
  await launcher.reported('its agent is connected', ({ agent }) => agent === 'connected', bootMs)
  return { launcher, inGuest }
}

test(
  'a mounted disk stays although the guest numbers its buses differently from libvirt',
  async () => {
    const [first = ''] = podUIDs
    // It is behind a bridge, which the guest numbers before the controller of the disk.
    const { launcher, inGuest } = await startLinux({ watchdogs: [{ model: 'i6300esb', action: 'reset' }] })
    const pod = await podFor(first)
    await pod.place(launcher)
    await request(launcher, [requestFor('one', first)], 'one Attached')
    await eventually('the guest has mounted it', async () => (await inGuest('readinessProbe'))[0] === 0, bootMs)
    const inUse = await request(launcher, [], 'one Detaching VolumeInUse')
    expect(inUse.volumes?.[0]?.message).toContain('does not report clearly on which disk it has mounted /data;')
    await eventually('the guest has unmounted it', async () => (await inGuest('startupProbe'))[0] === 0, bootMs)
    await reported(launcher)
  },
  bootMs,
)

test(
  'Linux sees the disk, keeps it while it is mounted, continues when another pod serves it, and loses it',
  async () => {
    const [first = '', second = ''] = podUIDs
    const { launcher, inGuest } = await startLinux({})
    const hasNoDisk = async () => /exited with status .*\/dev\/sda/.test((await inGuest('livenessProbe'))[1])
    await eventually('the guest has no disk yet', hasNoDisk, bootMs)
    const pod = await podFor(first)
    await pod.place(launcher)
    await request(launcher, [requestFor('one', first, { serial: 'SERIAL' })], 'one Attached')
    await eventually('the guest has mounted it', async () => (await inGuest('readinessProbe'))[0] === 0, bootMs)

    const inUse = await request(launcher, [], 'one Detaching VolumeInUse')
    expect(inUse.volumes?.[0]?.message).toContain('the guest has mounted it at /data')
    await request(launcher, [requestFor('one', first, { serial: 'SERIAL' })], 'one Attached')

    // Its pod is killed, and another serves the claim: the guest waits meanwhile.
    await pod.kill()
    const other = await podFor(second, { claim: pod.claim })
    await other.place(launcher)
    await request(launcher, [requestFor('one', second, { serial: 'SERIAL' })], 'one Attached')
    const readsWord = async () => (await inGuest('readinessProbe'))[1].startsWith('word')
    await eventually('the guest reads what it has written', readsWord, bootMs)

    await request(launcher, [], 'one Detaching VolumeInUse')
    await eventually('the guest has unmounted it', async () => (await inGuest('startupProbe'))[0] === 0, bootMs)
    await reported(launcher)
    // QEMU removes the disk at once, and Linux a moment later.
    await eventually('the guest has no disk any more', hasNoDisk, bootMs)
    const file = await open(join(pod.claim, 'disk.img'))
    const { buffer } = await file.read(Buffer.alloc(2), 0, 2, 1024 + 0x38)
    await file.close()
    expect(buffer.readUInt16LE(0)).toBe(0xef53)
  },
  4 * bootMs,
)
