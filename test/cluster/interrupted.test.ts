import { chown, mkdir, open, readdir, rm, truncate } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { run } from '../../cluster/command.ts'
import { openCluster, processesOfPod, type TestCluster, type VirtualMachine } from './cluster.ts'
import { diskOf, inPhase, isLauncher, isLibvirtd, kill } from './interruption.ts'
import { deaf, presets } from './vms.ts'

/** Processes that are killed while a claim is filled. */
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
  await cluster.apply(...presets)
  storage = join(cluster.state, `storage-${cluster.namespace}`)
  await mkdir(storage)
})
afterAll(async () => {
  await cluster.kubectl('delete', 'vm', '--all', '--timeout=240s')
  await cluster.close()
  await cluster.kubectl('delete', 'pv', ...persistentVolumes, '--wait=false')
  for (const loop of loops) await run(['losetup', '--detach', loop])
  await rm(storage, { recursive: true })
})

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

  describe.each(['file', 'block'] as const)('%s', { concurrent: true }, (kind) => {
    const oneByOne = { concurrent: false }
    /** What a claim has of a disk that is not whole: the files, or whether the device has the mark. */
    const leftIn = async (path: string) =>
      kind === 'block' ? marked(path) : (await readdir(join(path, '..'))).toSorted()
    const expectedLeft = (...files: readonly string[]) => (kind === 'block' ? true : files)
    /** The disk, and the lock of those who fill the claim. */
    const lock = 'disk.img.filling.unfinished'
    const filesOf = (uid: string) => [`disk.img.${uid}.unfinished`, lock]
    const claimFor = async (name: string): Promise<string> =>
      kind === 'block' ? claimDevice(name) : join(await claimDirectory(name), 'disk.img')

    test.each([
      ['launcher', isLauncher, filesOf, /./],
      ['qemu-img', isCopy, () => [lock], /^volume "root": the claim .* cannot be filled: qemu-img ended with SIGKILL$/],
    ] as const)('of %s: the VM fails, and the next one fills the claim again', oneByOne, async (of, is, left, why) => {
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

    test('of libvirtd: the claim is filled nevertheless, and the guest boots', oneByOne, async () => {
      const name = `${kind}-no-libvirtd`
      const path = await claimFor(name)
      const { vm, pid } = await stoppedCopy(name)
      kill(vm, isLibvirtd)
      expect(await leftIn(path)).toEqual(expectedLeft(...filesOf(vm.metadata.uid)))
      process.kill(pid, 'SIGCONT')
      const running = await cluster.untilVm(name, 'runs', inPhase('Running'))
      expect(running.status?.podUID).toBe(vm.status?.podUID)
      await bootsWhole(running, path)
      await cluster.kubectl('delete', 'vm', name, '--timeout=240s')
    })
  })
})
