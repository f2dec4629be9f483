import { existsSync } from 'node:fs'
import { chown, mkdir, open, readdir, readFile, rm, stat, truncate } from 'node:fs/promises'
import { join, resolve } from 'node:path'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import { run } from '../../cluster/command.ts'
import { nodesOf } from '../../cluster/network.ts'
import { sha256, startFileServer } from '../file-server.ts'
import { openCluster, podDirectory, processesOfPod, type VirtualMachine, type TestCluster } from './cluster.ts'
import { demoDisk } from './example-images.ts'
import { hasSpareNode, openSpare, type Spare } from './spare.ts'
import { deaf, presets } from './vms.ts'

let cluster: TestCluster
/** The directory on the host for persistent volumes. */
let storage: string
const loops: string[] = []
/** Persistent volumes have no namespace. */
const persistentVolumes: string[] = []

beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets)
  storage = join(cluster.state, `storage-${cluster.namespace}`)
  await mkdir(storage)
})
afterAll(async () => {
  await cluster.close()
  await cluster.kubectl('delete', 'pv', ...persistentVolumes, '--wait=false')
  for (const loop of loops) await run(['losetup', '--detach', loop])
  await rm(storage, { recursive: true })
})

const readyOf = ({ status }: VirtualMachine) => status?.conditions?.find(({ type }) => type === 'Ready')
const isLauncher = (command: string) => command.includes('launcher/main.ts')
const inPhase = (phase: string) => (vm: VirtualMachine) => vm.status?.phase === phase
/** The UID of every process in a VM's pod. */
const launcherUser = 107
const impatient = { terminationGracePeriodSeconds: 0 }
const mebibyte = 1024 * 1024

const disk = (volume: string, target: string, more: object = {}) => ({
  type: 'volume',
  device: 'disk',
  source: { volume },
  target: { dev: target },
  ...more,
})

async function running(name: string, volume: object, disks: readonly object[]): Promise<VirtualMachine> {
  await cluster.apply(deaf(name, { ...impatient, volumes: [volume] }, { devices: { disks } }))
  const vm = await cluster.untilVm(name, 'runs', inPhase('Running'))
  expect(vm.status?.conditions?.find(({ type }) => type === 'SpecDrift')).toBeUndefined()
  return vm
}

/** The disks of libvirt's domain. */
function liveDisks(vm: VirtualMachine): unknown {
  const devices = vm.status?.domain?.['devices']
  return typeof devices === 'object' && devices !== null && 'disks' in devices ? devices.disks : undefined
}

/** The path of the VM's first volume in the kubelet's directory. */
function emptyVolume(vm: VirtualMachine): string {
  return join(podDirectory(cluster.state, vm), 'volumes/kubernetes.io~empty-dir/volume-0')
}

/** A disk image with the demo guest. */
async function guestImage(path: string): Promise<void> {
  await run(['nasm', '-f', 'bin', '-o', path, join(import.meta.dirname, '../../images/iscsi-demo/guest.asm')])
  await truncate(path, 2 * mebibyte)
}

/** A volume that is reserved for the claim of this name. */
async function persistentVolume(name: string, volumeMode: string, source: object): Promise<string> {
  const volumeName = `${cluster.namespace}-${name}`
  persistentVolumes.push(volumeName)
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name: volumeName },
    spec: {
      volumeMode,
      accessModes: ['ReadWriteOnce'],
      storageClassName: '',
      ...source,
      capacity: { storage: '8Mi' },
      persistentVolumeReclaimPolicy: 'Retain',
      claimRef: { namespace: cluster.namespace, name },
    },
  })
  return volumeName
}

/** A claim, and a volume that is reserved for it. */
async function claim(name: string, volumeMode: string, source: object): Promise<void> {
  const volumeName = await persistentVolume(name, volumeMode, source)
  const resources = { requests: { storage: '8Mi' } }
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'PersistentVolumeClaim',
    metadata: { name },
    spec: { volumeMode, accessModes: ['ReadWriteOnce'], storageClassName: '', volumeName, resources },
  })
}

async function greets(vm: VirtualMachine): Promise<void> {
  const console = await cluster.console(vm)
  await console.isUp()
  console.close()
}

async function remove(vm: VirtualMachine): Promise<void> {
  await cluster.kubectl('delete', 'vm', vm.metadata.name, '--timeout=240s')
  await cluster.until('the pod’s directory is gone', async () =>
    existsSync(podDirectory(cluster.state, vm)) ? undefined : true,
  )
}

test.concurrent('emptyDisk: has the requested size, is a disk of the guest, and is deleted with the VM', async () => {
  const volume = { name: 'scratch', emptyDisk: { capacity: '48Mi' } }
  const vm = await running('empty', volume, [disk('scratch', 'vda')])
  expect(liveDisks(vm)).toMatchObject([
    { type: 'file', source: { file: '/var/run/virtset/volumes/scratch/disk.img' }, target: { dev: 'vda' } },
  ])
  const { size, uid } = await stat(join(emptyVolume(vm), 'disk.img'))
  expect({ size, uid }).toEqual({ size: 48 * mebibyte, uid: launcherUser })
  await remove(vm)
})

test.concurrent('cloudInit: is a read-only ISO with the label for cloud-init and the user’s data, and is deleted with the VM', async () => {
  const userData = '#cloud-config\nhostname: written-by-the-user\n'
  const vm = await running('seeded', { name: 'seed', cloudInit: { userData } }, [
    disk('seed', 'sda', { device: 'cdrom' }),
  ])
  expect(liveDisks(vm)).toMatchObject([{ type: 'file', device: 'cdrom', readonly: {} }])
  const iso = await readFile(join(emptyVolume(vm), 'cloud-init.iso'))
  // ISO 9660: the primary volume descriptor is sector 16, and its bytes 40 to 71 are the label.
  expect(iso.toString('latin1', 16 * 2048 + 40, 16 * 2048 + 72).trimEnd()).toBe('cidata')
  const content = iso.toString('latin1')
  for (const words of [userData, `instance-id: ${vm.metadata.uid}`, 'user-data', 'meta-data'])
    expect(content).toContain(words)
  await remove(vm)
})

test.concurrent('cloudInit: a VM waits for a missing Secret, reports that, and has its content once the Secret exists', async () => {
  const volumes = [{ name: 'seed', cloudInit: { userDataSecretRef: { name: 'vm.seed' } } }]
  await cluster.apply(deaf('secretive', { ...impatient, volumes }, { devices: { disks: [disk('seed', 'sda')] } }))
  const waiting = await cluster.untilVm('secretive', 'waits', (vm) => readyOf(vm)?.reason === 'FailedMount')
  expect(waiting.status?.phase).toBe('Scheduled')
  expect(readyOf(waiting)?.message).toBe('volume "seed": secret "vm.seed" not found')
  const stringData = { userData: '#cloud-config\npassword: from-the-secret\n' }
  await cluster.apply({ apiVersion: 'v1', kind: 'Secret', metadata: { name: 'vm.seed' }, stringData })
  const vm = await cluster.untilVm('secretive', 'runs', inPhase('Running'))
  expect(readyOf(vm)?.status).toBe('True')
  // The file is in memory, and mounted only in the pod, where /var/run is a link to /run.
  const [pid] = processesOfPod(vm.status?.podUID ?? 'no pod', isLauncher)
  const iso = await readFile(`/proc/${pid}/root/run/virtset/volumes/seed/cloud-init.iso`, 'latin1')
  expect(iso).toContain(stringData.userData)
  await remove(vm)
})

test.concurrent('persistentVolumeClaim: a guest boots from a file, which remains after the VM is deleted', async () => {
  const directory = join(storage, 'file')
  await mkdir(directory)
  const image = join(directory, 'disk.img')
  await guestImage(image)
  await chown(image, launcherUser, launcherUser)
  await claim('in-a-file', 'Filesystem', { hostPath: { path: directory } })
  const vm = await running('from-file', { name: 'root', persistentVolumeClaim: { claimName: 'in-a-file' } }, [
    disk('root', 'vda'),
  ])
  await greets(vm)
  await remove(vm)
  expect((await stat(image)).size).toBe(2 * mebibyte)
})

test.concurrent('persistentVolumeClaim: a guest boots from a block device', async () => {
  const image = join(storage, 'block.img')
  await guestImage(image)
  const loop = (await run(['losetup', '--find', '--show', image])).trim()
  loops.push(loop)
  const node = (await cluster.kubectl('get', 'nodes', '-o', 'jsonpath={.items[0].metadata.name}')).trim()
  const matchExpressions = [{ key: 'kubernetes.io/hostname', operator: 'In', values: [node] }]
  await claim('on-a-device', 'Block', {
    local: { path: loop },
    nodeAffinity: { required: { nodeSelectorTerms: [{ matchExpressions }] } },
  })
  const vm = await running('from-device', { name: 'root', persistentVolumeClaim: { claimName: 'on-a-device' } }, [
    disk('root', 'vda'),
  ])
  expect(vm.status?.nodeName).toBe(node)
  expect(liveDisks(vm)).toMatchObject([{ type: 'block', source: { dev: '/var/run/virtset/block/root' } }])
  await greets(vm)
  await remove(vm)
})

/** A config or group whose guests boot from the claims `root-VM`. */
async function applyOwner(kind: string, name: string, source: object, more: object = {}): Promise<void> {
  const { spec } = deaf(name, impatient, { devices: { disks: [disk('root', 'vda')] } }) as { spec: object }
  await cluster.apply({
    apiVersion: 'virtset.io/v1alpha1',
    kind,
    metadata: { name },
    spec: {
      template: { metadata: { labels: { app: name } }, spec },
      claimTemplates: [
        { name: 'root', source, spec: { storageClassName: '', resources: { requests: { storage: '8Mi' } } } },
      ],
      persistentVolumeClaimRetentionPolicy: { whenDeleted: 'Delete' },
      ...more,
    },
  })
}

/** An empty volume for the claim `root-VM`. Returns its directory. */
async function volumeForVm(name: string): Promise<string> {
  const directory = join(storage, name)
  await mkdir(directory)
  await chown(directory, launcherUser, launcherUser)
  await persistentVolume(`root-${name}`, 'Filesystem', { hostPath: { path: directory } })
  return directory
}

const demoImage = async () => ({ image: { reference: await demoDisk(cluster) } })

const kubectlVm = resolve(import.meta.dirname, '../../cli/main.ts')
const vm = (...rest: string[]) => run([process.execPath, kubectlVm, ...rest, '-n', cluster.namespace, '--wait'])

test.concurrent('claimTemplates: the config’s claim is filled from an image once, and its guest boots', async () => {
  const directory = await volumeForVm('web')
  await applyOwner('VirtualMachineConfig', 'web', await demoImage())
  await vm('start', 'web')
  const first = await cluster.untilVm('web', 'runs', inPhase('Running'))
  await greets(first)
  expect((await stat(join(directory, 'disk.img'))).size).toBe(8 * mebibyte)
  const filled = '{.metadata.annotations.virtset\\.io/filled}'
  await cluster.until('the claim is marked', async () =>
    (await cluster.kubectl('get', 'pvc', 'root-web', '-o', `jsonpath=${filled}`)) === '' ? undefined : true,
  )
  await vm('restart', 'web')
  const second = await cluster.untilVm('web', 'runs again', ({ metadata, status }) =>
    metadata.uid !== first.metadata.uid ? status?.phase === 'Running' : false,
  )
  // The second pod needs no image.
  const sources = ['get', 'pod', '-l', `virtset.io/vm-uid=${second.metadata.uid}`]
  expect(await cluster.kubectl(...sources, '-o', 'jsonpath={.items[*].spec.volumes[*].image.reference}')).toBe('')
  await cluster.kubectl('delete', 'vmc', 'web', '--timeout=240s')
  await cluster.kubectl('wait', 'pvc/root-web', '--for=delete', '--timeout=240s')
})

test.concurrent('claimTemplates: a launcher that is killed during a download leaves no disk, and the next start boots', async () => {
  const directory = await volumeForVm('downloaded')
  await guestImage(join(storage, 'served.img'))
  const body = await readFile(join(storage, 'served.img'))
  // Pods reach the host at the address of each node.
  await using server = await startFileServer(nodesOf(1)[0]?.address)
  server.answers({ status: 503 })
  await applyOwner('VirtualMachineConfig', 'downloaded', {
    http: { url: `${server.url}/disk`, checksum: sha256(body) },
  })
  await run([process.execPath, kubectlVm, 'start', 'downloaded', '-n', cluster.namespace])
  const failed = await cluster.untilVm('downloaded', 'waits for the server', (one) => {
    return readyOf(one)?.reason === 'DownloadFailed'
  })
  expect(readyOf(failed)?.message).toContain(
    `volume "root": the claim root-downloaded cannot be filled: ${server.url}/disk: the server responded with status 503; trying again in `,
  )
  server.answers({ status: 200, body, send: body.length / 2, isSilent: true }, { status: 200, body })
  const filling = await cluster.untilVm('downloaded', 'has half of the disk', (one) => {
    return readyOf(one)?.reason === 'FillingDisk' && readyOf(one)?.message.endsWith(': 50 %') === true
  })
  const files = (await readdir(directory)).toSorted()
  expect(files).toEqual([`disk.img.${filling.metadata.uid}-source.unfinished`, 'disk.img.filling.unfinished'])
  const pids = processesOfPod(filling.status?.podUID ?? 'no pod', isLauncher)
  for (const pid of pids) process.kill(pid, 'SIGKILL')
  await cluster.untilVm('downloaded', 'has failed', inPhase('Failed'))
  expect((await readdir(directory)).toSorted()).toEqual(files)
  await vm('start', 'downloaded')
  await greets(await cluster.untilVm('downloaded', 'runs', inPhase('Running')))
  expect(await readdir(directory)).toEqual(['disk.img'])
  expect((await stat(join(directory, 'disk.img'))).size).toBe(8 * mebibyte)
  await cluster.kubectl('delete', 'vmc', 'downloaded', '--timeout=240s')
})

test.concurrent('claimTemplates: each VM of a group boots from its own claim, which is deleted when the group is scaled in', async () => {
  await Promise.all(['set-0', 'set-1'].map(volumeForVm))
  const persistentVolumeClaimRetentionPolicy = { whenDeleted: 'Delete', whenScaled: 'Delete' }
  const selector = { matchLabels: { app: 'set' } }
  const more = { replicas: 2, selector, persistentVolumeClaimRetentionPolicy }
  await applyOwner('VirtualMachineGroup', 'set', await demoImage(), more)
  for (const name of ['set-0', 'set-1']) await greets(await cluster.untilVm(name, 'runs', inPhase('Running')))
  await cluster.kubectl('scale', 'vmg/set', '--replicas=1')
  await cluster.kubectl('wait', 'pvc/root-set-1', '--for=delete', '--timeout=240s')
  await cluster.untilGone('set-1')
  expect((await cluster.vm('set-0'))?.status?.phase).toBe('Running')
  await cluster.kubectl('delete', 'vmg', 'set', '--timeout=240s')
  await cluster.kubectl('wait', 'pvc/root-set-0', '--for=delete', '--timeout=240s')
})

test.concurrent('a VM waits for a missing claim, reports that, and runs once the claim exists', async () => {
  const directory = join(storage, 'late')
  await mkdir(directory)
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'late' } }]
  await cluster.apply(deaf('early', { ...impatient, volumes }, { devices: { disks: [disk('data', 'vda')] } }))
  const waiting = await cluster.untilVm('early', 'waits', ({ status }) => status?.reason === 'ClaimNotFound')
  expect(waiting.status?.message).toContain('persistentvolumeclaim "late" not found')
  await (await open(join(directory, 'disk.img'), 'w')).close()
  await truncate(join(directory, 'disk.img'), mebibyte)
  await chown(join(directory, 'disk.img'), launcherUser, launcherUser)
  await claim('late', 'Filesystem', { hostPath: { path: directory } })
  await remove(await cluster.untilVm('early', 'runs', inPhase('Running')))
})

test.concurrent('a VM whose claim has no disk fails and reports what is missing', async () => {
  const directory = join(storage, 'hollow')
  await mkdir(directory)
  await claim('hollow', 'Filesystem', { hostPath: { path: directory } })
  const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'hollow' } }]
  await cluster.apply(deaf('no-disk', { ...impatient, volumes }, { devices: { disks: [disk('data', 'vda')] } }))
  const failed = await cluster.untilVm('no-disk', 'has failed', inPhase('Failed'))
  expect(failed.status).toMatchObject({
    reason: 'VolumeUnavailable',
    message: 'volume "data": the claim hollow has no file disk.img',
  })
})

/** On the cluster of `make up`, which has no spare node, this block does not run. */
describe.runIf(hasSpareNode())('with the spare node', () => {
  let spare: Spare
  beforeAll(async () => {
    spare = openSpare(cluster)
    await spare.uncordon()
  })
  afterAll(() => spare.repair())

  test('deviceStateVolume: a config that starts on another node finds its NVRAM and its TPM again', async () => {
    const directory = join(storage, 'state')
    await mkdir(directory)
    await chown(directory, launcherUser, launcherUser)
    await claim('state', 'Filesystem', { hostPath: { path: directory } })
    const volumes = [{ name: 'state', persistentVolumeClaim: { claimName: 'state' } }]
    const { spec } = deaf(
      'sealed',
      { ...impatient, volumes, deviceStateVolume: 'state' },
      {
        memory: { unit: 'MiB', value: 256 },
        os: { firmware: 'efi', type: { os: 'hvm', machine: 'q35' } },
        devices: { tpms: [{ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } }] },
      },
    ) as { spec: object }
    const kind = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineConfig', metadata: { name: 'sealed' } }
    const starts: { readonly node: string | undefined; readonly inodes: readonly number[] }[] = []
    for (const node of ['node1', spare.name]) {
      const nodeSelector = { 'kubernetes.io/hostname': node }
      await cluster.apply({ ...kind, spec: { template: { spec: { ...spec, nodeSelector } } } })
      await vm('start', 'sealed')
      const { status } = await cluster.untilVm('sealed', 'runs', inPhase('Running'))
      const files = ['sealed_VARS.fd', 'sealed_TPM'].map((name) => stat(join(directory, name)))
      starts.push({ node: status?.nodeName, inodes: (await Promise.all(files)).map(({ ino }) => ino) })
      await vm('stop', 'sealed')
    }
    const [first, second] = starts
    expect(second).toEqual({ node: spare.name, inodes: first?.inodes })
    expect(first?.node).toBe('node1')
  })
})
