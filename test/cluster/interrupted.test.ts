import { chown, mkdir, open, readdir, rm, truncate } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { run } from '../../cluster/command.ts'
import type { SnapshotStatus } from '../../api/snapshot.ts'
import { openCluster, processesOfPod, type Console, type TestCluster, type VirtualMachine } from './cluster.ts'
import { linuxVolume } from './example-images.ts'
import { deaf, presets } from './vms.ts'

/** Processes that are killed while a claim is filled, and while a guest is frozen for a snapshot. */
let cluster: TestCluster
/** The directory on the host for persistent volumes. */
let storage: string
const loops: string[] = []
/** Persistent volumes have no namespace. */
const persistentVolumes: string[] = []

const launcherUser = 107
const mebibyte = 1024 * 1024
/** Large enough that the copy can be stopped before its end. */
const sourceBytes = 256 * mebibyte
const impatient = { terminationGracePeriodSeconds: 0 }

beforeAll(async () => {
  cluster = await openCluster()
  await cluster.kubectl('apply', '-f', resolve(import.meta.dirname, '../../manifests/examples/preset-guest-agent.yaml'))
  await cluster.apply(...presets)
  storage = join(cluster.state, `storage-${cluster.namespace}`)
  await mkdir(storage)
})
afterAll(async () => {
  await cluster.kubectl('delete', 'vm', '--all', '--timeout=240s')
  await cluster.close()
  for (const name of persistentVolumes) await cluster.kubectl('delete', 'pv', name, '--timeout=240s')
  for (const loop of loops) await run(['losetup', '--detach', loop])
  await rm(storage, { recursive: true })
})

const isLauncher = (command: string) => command.startsWith('virt-launcher')
const isLibvirtd = (command: string) => command.startsWith('libvirtd')
const inPhase = (phase: string) => (vm: VirtualMachine) => vm.status?.phase === phase
const diskOf = (volume: string, dev: string) => ({
  type: 'volume',
  device: 'disk',
  source: { volume },
  target: { dev },
})

/** Kills the only process of a VM's pod whose command line matches. */
function kill(vm: VirtualMachine, isWanted: (command: string) => boolean): void {
  const [pid, ...others] = processesOfPod(vm.status?.podUID ?? 'no pod', isWanted)
  if (pid === undefined || others.length > 0) throw new Error(`not one process, but ${others.length}`)
  process.kill(pid, 'SIGKILL')
}

/** A claim, and a volume that is reserved for it. */
async function claim(name: string, volumeMode: 'Filesystem' | 'Block', source: object): Promise<void> {
  const volumeName = `${cluster.namespace}-${name}`
  persistentVolumes.push(volumeName)
  const common = { volumeMode, accessModes: ['ReadWriteOnce'], storageClassName: '' }
  await cluster.apply(
    {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: volumeName },
      spec: {
        ...common,
        ...source,
        capacity: { storage: '8Mi' },
        persistentVolumeReclaimPolicy: 'Retain',
        claimRef: { namespace: cluster.namespace, name },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name },
      spec: { ...common, volumeName, resources: { requests: { storage: '8Mi' } } },
    },
  )
}

/** A claim for an empty directory of the host; returns the directory. */
async function claimDirectory(name: string): Promise<string> {
  const directory = join(storage, name)
  await mkdir(directory)
  await chown(directory, launcherUser, launcherUser)
  await claim(name, 'Filesystem', { hostPath: { path: directory } })
  return directory
}

/** A claim for a device that is all zero; returns the file with its content. */
async function claimDevice(name: string): Promise<string> {
  const file = join(storage, `${name}.img`)
  await (await open(file, 'w')).close()
  await truncate(file, sourceBytes)
  const loop = (await run(['losetup', '--find', '--show', file])).trim()
  loops.push(loop)
  const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values: ['node1'] }]
  const nodeAffinity = { required: { nodeSelectorTerms: [{ matchExpressions }] } }
  await claim(name, 'Block', { local: { path: loop }, nodeAffinity })
  return file
}

describe('kill -9 while a claim is filled', () => {
  let source: string
  beforeAll(async () => {
    source = join(await claimDirectory('source'), 'disk.img')
    await run(['nasm', '-f', 'bin', '-o', source, join(import.meta.dirname, '../../images/iscsi-demo/guest.asm')])
    const file = await open(source, 'r+')
    const part = Buffer.alloc(mebibyte, 1)
    for (let at = mebibyte; at < sourceBytes; at += mebibyte) await file.write(part, 0, part.length, at)
    await file.close()
  })

  /** The first MiB of a device is copied to a file before the others. */
  const isCopy = (command: string) => command.startsWith('qemu-img convert') && !command.includes('"size"')

  /** Creates the VM, and stops qemu-img while it copies. Returns its process ID. */
  async function stoppedCopy(name: string): Promise<{ readonly vm: VirtualMachine; readonly pid: number }> {
    const from = { claimName: name, source: { claim: { claimName: 'source' } } }
    const volumes = [{ name: 'root', persistentVolumeClaim: from }]
    await cluster.apply(deaf(name, { ...impatient, volumes }, { devices: { disks: [diskOf('root', 'vda')] } }))
    const vm = await cluster.untilVm(name, 'has a pod', ({ status }) => status?.podUID !== undefined)
    for (let tries = 0; tries < 5000; tries++) {
      const [pid] = processesOfPod(vm.status?.podUID ?? '', isCopy)
      if (pid !== undefined) {
        process.kill(pid, 'SIGSTOP')
        return { vm, pid }
      }
      await sleep(5)
    }
    throw new Error(`nothing copies a disk for ${name}`)
  }

  /** The guest boots, and its disk is the source. */
  async function bootsWhole(vm: VirtualMachine, path: string): Promise<void> {
    const console = await cluster.console(vm)
    await console.isUp()
    console.close()
    await run(['cmp', '-n', `${sourceBytes}`, source, path])
  }

  const marked = async (path: string): Promise<boolean> => {
    const file = await open(path)
    const { buffer } = await file.read(Buffer.alloc(512), 0, 512, 0)
    await file.close()
    return buffer.toString('latin1').startsWith('virtset: this disk is being filled')
  }

  describe.each(['file', 'block'] as const)('%s', (kind) => {
    /** What a claim has of a disk that is not whole: the files, or whether the device has the mark. */
    const leftIn = async (path: string) => (kind === 'block' ? marked(path) : readdir(join(path, '..')))
    const expectedLeft = (...files: readonly string[]) => (kind === 'block' ? true : files)
    const claimFor = async (name: string): Promise<string> =>
      kind === 'block' ? claimDevice(name) : join(await claimDirectory(name), 'disk.img')

    test.each([
      ['launcher', isLauncher, (uid: string) => [`disk.img.${uid}.unfinished`], /./],
      ['qemu-img', isCopy, () => [], /^volume "root": the claim .* cannot be filled: qemu-img ended with SIGKILL$/],
    ] as const)('of %s: the VM fails, and the next one fills the claim anew', async (of, is, left, why) => {
      const name = `${kind}-no-${of}`
      const path = await claimFor(name)
      const { vm } = await stoppedCopy(name)
      kill(vm, is)
      const failed = await cluster.untilVm(name, 'has failed', inPhase('Failed'))
      expect(failed.status?.message).toMatch(why)
      expect(await leftIn(path)).toEqual(expectedLeft(...left(vm.metadata.uid)))
      await cluster.kubectl('delete', 'vm', name, '--timeout=240s')
      const { pid } = await stoppedCopy(name)
      process.kill(pid, 'SIGCONT')
      await bootsWhole(await cluster.untilVm(name, 'runs', inPhase('Running')), path)
      await cluster.kubectl('delete', 'vm', name, '--timeout=240s')
    })

    test('of libvirtd: the claim is filled nevertheless, and the guest boots', async () => {
      const name = `${kind}-no-libvirtd`
      const path = await claimFor(name)
      const { vm, pid } = await stoppedCopy(name)
      kill(vm, isLibvirtd)
      expect(await leftIn(path)).toEqual(expectedLeft(`disk.img.${vm.metadata.uid}.unfinished`))
      process.kill(pid, 'SIGCONT')
      const running = await cluster.untilVm(name, 'runs', inPhase('Running'))
      expect(running.status?.podUID).toBe(vm.status?.podUID)
      await bootsWhole(running, path)
      await cluster.kubectl('delete', 'vm', name, '--timeout=240s')
    })
  })
})

/** The claims are of the CSI driver in `cluster/csi`. */
describe('kill -9 while a guest is frozen for a snapshot', () => {
  beforeAll(async () => {
    const common = { accessModes: ['ReadWriteOnce'], storageClassName: 'files', volumeMode: 'Block' }
    const resources = { requests: { storage: '32Mi' } }
    await cluster.apply({
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name: 'data' },
      spec: { ...common, resources },
    })
    const userData = '#cloud-config\nruncmd:\n- mkfs.ext4 -q /dev/vdb\n- mkdir -p /data\n- mount /dev/vdb /data\n'
    const volumes = [
      await linuxVolume(cluster),
      { name: 'data', persistentVolumeClaim: { claimName: 'data', source: { empty: {} } } },
      { name: 'seed', cloudInit: { userData } },
    ]
    const seed = { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } }
    const disks = [diskOf('root', 'vda'), diskOf('data', 'vdb'), seed]
    const domain = { memory: { unit: 'MiB', value: 256 }, devices: { disks } }
    await cluster.apply(deaf('linux', { ...impatient, volumes }, domain, { labels: { 'guest-agent': 'yes' } }))
    await cluster.untilVm('linux', 'has an agent', hasAgent)
  })

  const hasAgent = ({ status }: VirtualMachine) =>
    status?.conditions?.some(({ type, status: is }) => type === 'AgentConnected' && is === 'True') === true

  /** Its class does not exist, so the guest stays frozen until it is thawed by the launcher. */
  async function takeForever(name: string): Promise<VirtualMachine> {
    await cluster.apply({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachineSnapshot',
      metadata: { name },
      spec: { source: { name: 'linux' }, volumeSnapshotClassName: classOf(name) },
    })
    const uid = await cluster.kubectl('get', 'vmsnap', name, '-o', 'jsonpath={.metadata.uid}')
    return cluster.untilVm('linux', 'is frozen', (vm) => isFrozen(vm, uid))
  }
  const classOf = (name: string) => `${cluster.namespace}-${name}`
  const frozenOf = ({ status }: VirtualMachine) => status?.frozen
  const isFrozen = (vm: VirtualMachine, id: string) => frozenOf(vm)?.id === id && frozenOf(vm)?.state === 'Frozen'

  async function login(vm: VirtualMachine): Promise<Console> {
    const console = await cluster.console(vm)
    await console.ask('', 'login: ')
    console.write('root\r')
    await console.hear('Password: ')
    console.write('virtset\r')
    await console.ask('echo shell-$((40 + 2))', 'shell-42')
    return console
  }

  /** Gives the storage the class that a snapshot waits for, and waits until the snapshot is complete. */
  async function completed(name: string): Promise<SnapshotStatus> {
    await cluster.apply({
      apiVersion: 'snapshot.storage.k8s.io/v1',
      kind: 'VolumeSnapshotClass',
      metadata: { name: classOf(name) },
      driver: 'files.csi.virtset.io',
      deletionPolicy: 'Delete',
    })
    try {
      return await cluster.until(`the snapshot ${name} is complete`, async () => {
        const { status }: { status?: SnapshotStatus } = JSON.parse(
          await cluster.kubectl('get', 'vmsnap', name, '-o', 'json'),
        )
        return status?.phase === 'Ready' || status?.phase === 'Failed' ? status : undefined
      })
    } finally {
      await cluster.kubectl('delete', 'volumesnapshotclass', classOf(name))
    }
  }

  test('of libvirtd: the guest is thawed in time, and the snapshot is not said to be quiesced', async () => {
    const shell = await login(await cluster.untilVm('linux', 'runs', inPhase('Running')))
    const vm = await takeForever('no-libvirtd')
    kill(vm, isLibvirtd)
    shell.write('echo written >/data/state && sync && echo thawed-$((40 + 2))\r')
    await shell.hear('thawed-42')
    shell.close()
    const after = await cluster.untilVm('linux', 'is not frozen', (one) => frozenOf(one)?.state !== 'Frozen')
    expect(after.status).toMatchObject({ phase: 'Running', podUID: vm.status?.podUID })
    const status = await completed('no-libvirtd')
    expect(status).toMatchObject({ phase: 'Ready' })
    expect(status.conditions?.find(({ type }) => type === 'Quiesced')).toMatchObject({ status: 'False' })
  })

  test('of the launcher: the VM fails, and the snapshot is not said to be quiesced', async () => {
    await cluster.untilVm('linux', 'has an agent', hasAgent)
    const vm = await takeForever('no-launcher')
    kill(vm, isLauncher)
    await cluster.untilVm('linux', 'has failed', inPhase('Failed'))
    const status = await completed('no-launcher')
    expect(status).toMatchObject({ phase: 'Ready' })
    expect(status.conditions?.find(({ type }) => type === 'Quiesced')).toMatchObject({ status: 'False' })
  })
})
