import { chown, copyFile, mkdir, open, rm, stat } from 'node:fs/promises'
import { join, resolve } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { run } from '../../cluster/command.ts'
import type { SnapshotStatus } from '../../api/snapshot.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { unlessNotFound } from '../../runtime/api-error.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { virtualMachineSnapshots } from '../../runtime/resource.ts'
import { volumeSnapshots } from '../../controller/volume-snapshot.ts'
import { volumeSnapshotDefinition } from '../volume-snapshots.ts'
import { openCluster, type TestCluster } from './cluster.ts'
import { deaf, presets } from './vms.ts'

/** The test is the storage: it copies the disk of a claim when a VolumeSnapshot of it appears. */
let cluster: TestCluster
let kube: KubeClient
/** The directory on the host for persistent volumes. */
let storage: string
const persistentVolumes: string[] = []

beforeAll(async () => {
  cluster = await openCluster()
  kube = createKubeClient({ access: await kubeconfigAccess(), userAgent: 'snapshot-test' })
  storage = join(cluster.state, `storage-${cluster.namespace}`)
  await mkdir(storage)
  await cluster.kubectl('apply', '-f', resolve(import.meta.dirname, '../../manifests/examples/preset-guest-agent.yaml'))
  await cluster.apply(...presets)
  await emptyVolume('data-linux')
  await cluster.apply(claim('data-linux'), await linux())
})
afterAll(async () => {
  await kube?.close()
  await cluster.close()
  for (const name of persistentVolumes) await cluster.kubectl('delete', 'pv', name, '--timeout=240s')
  await cluster.kubectl('delete', 'crd', volumeSnapshotDefinition.metadata.name, '--ignore-not-found')
  await rm(storage, { recursive: true, force: true })
})

const launcherUser = 107
const size = { requests: { storage: '32Mi' } }
const directoryOf = (claimName: string) => join(storage, claimName)
const diskOf = (claimName: string) => join(directoryOf(claimName), 'disk.img')

/** An empty volume that is reserved for the claim of this name. */
async function emptyVolume(claimName: string): Promise<void> {
  await mkdir(directoryOf(claimName))
  await chown(directoryOf(claimName), launcherUser, launcherUser)
  const name = `${cluster.namespace}-${claimName}`
  persistentVolumes.push(name)
  await cluster.apply({
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name },
    spec: {
      accessModes: ['ReadWriteOnce'],
      storageClassName: '',
      hostPath: { path: directoryOf(claimName) },
      capacity: size.requests,
      persistentVolumeReclaimPolicy: 'Retain',
      claimRef: { namespace: cluster.namespace, name: claimName },
    },
  })
}

const claim = (name: string) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], storageClassName: '', resources: size },
})

const dataVolume = (claimName: string) => ({
  name: 'data',
  persistentVolumeClaim: { claimName, capacity: '32Mi', source: { empty: {} } },
})
const disk = (volume: string, dev: string) => ({ type: 'volume', device: 'disk', source: { volume }, target: { dev } })

/** The example's Linux, with a mounted file system on a claim. */
async function linux(): Promise<object> {
  const [kubectl = '', ...flags] = cluster.command
  const example = JSON.parse(await run([kubectl, ...flags, '-n', 'default', 'get', 'vm', 'from-image', '-o', 'json']))
  const [root] = example.spec.volumes
  const runcmd = ['mkfs.ext4 -q /dev/vdb', 'mkdir -p /data', 'mount /dev/vdb /data', 'echo mounted >/data/state']
  const userData = `#cloud-config\nruncmd:\n${runcmd.map((line) => `- ${line}\n`).join('')}`
  const seed = { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } }
  return deaf(
    'linux',
    {
      terminationGracePeriodSeconds: 0,
      volumes: [root, dataVolume('data-linux'), { name: 'seed', cloudInit: { userData } }],
    },
    {
      memory: { unit: 'MiB', value: 256 },
      devices: { disks: [disk('root', 'vda'), disk('data', 'vdb'), seed], serials: [{ type: 'pty' }] },
    },
    { labels: { 'guest-agent': 'yes' } },
  )
}

const snapshotOf = (name: string, source: object) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineSnapshot',
  metadata: { name },
  spec: { source },
})

async function statusOf(name: string): Promise<SnapshotStatus> {
  const ref = { namespace: cluster.namespace, name }
  return (await kube.get(virtualMachineSnapshots, ref)).status ?? {}
}
const conditionOf = ({ conditions = [] }: SnapshotStatus, type: string) =>
  conditions.find((condition) => condition.type === type)

const untilSnapshot = (name: string, what: string, isWanted: (status: SnapshotStatus) => boolean) =>
  cluster.until(`snapshot ${name}: ${what}`, async () => {
    const status = await statusOf(name)
    return isWanted(status) ? status : undefined
  })

/** Takes the VolumeSnapshot of this name when it appears, and returns the status of the finished snapshot. */
async function take(snapshot: string, volumeSnapshot: string): Promise<SnapshotStatus> {
  const ref = { namespace: cluster.namespace, name: volumeSnapshot }
  const found = await cluster.until(`VolumeSnapshot ${volumeSnapshot}`, () =>
    unlessNotFound(kube.get(volumeSnapshots, ref)),
  )
  const claimName = found.spec.source.persistentVolumeClaimName ?? ''
  await copyFile(diskOf(claimName), join(storage, volumeSnapshot))
  const body = { status: { creationTime: new Date().toISOString(), readyToUse: true } }
  await kube.patch(volumeSnapshots, ref, { type: 'merge', body }, { subresource: 'status' })
  return untilSnapshot(snapshot, 'is ready', ({ phase }) => phase === 'Ready')
}

/** Whether an ext4 file system must replay its journal: the kernel clears this flag when it freezes or unmounts it. */
async function needsRecovery(image: string): Promise<boolean> {
  const file = await open(image)
  const { buffer } = await file.read(Buffer.alloc(1024), 0, 1024, 1024)
  await file.close()
  expect(buffer.readUInt16LE(0x38)).toBe(0xef53)
  return (buffer.readUInt32LE(0x60) & 4) !== 0
}

test('without VolumeSnapshots in the cluster, a snapshot waits and reports that', async () => {
  await emptyVolume('data-deaf')
  await cluster.apply(
    claim('data-deaf'),
    deaf(
      'deaf',
      { terminationGracePeriodSeconds: 0, volumes: [dataVolume('data-deaf')] },
      {
        devices: { disks: [disk('data', 'vda')] },
      },
    ),
  )
  await cluster.untilVm('deaf', 'runs', ({ status }) => status?.phase === 'Running')
  await cluster.apply(snapshotOf('early', { name: 'deaf' }))
  const status = await untilSnapshot('early', 'is reported', (one) => conditionOf(one, 'Ready') !== undefined)
  expect([status.phase, conditionOf(status, 'Ready')?.reason]).toEqual(['Pending', 'VolumeSnapshotsUnsupported'])
  await cluster.kubectl('delete', 'vmsnap', 'early')
  await cluster.apply(volumeSnapshotDefinition)
  await cluster.kubectl('wait', '--for=condition=Established', `crd/${volumeSnapshotDefinition.metadata.name}`)
})

test('the disk of a guest without an agent is taken as it is, and a config gets a claim from it', async () => {
  await cluster.apply(snapshotOf('crash', { name: 'deaf' }))
  const status = await take('crash', 'crash-data')
  expect(status.volumes).toEqual([{ name: 'data', claimName: 'data-deaf', volumeSnapshotName: 'crash-data' }])
  expect(conditionOf(status, 'Quiesced')).toMatchObject({ status: 'False', reason: 'NoAgent' })

  await emptyVolume('data-restored')
  await copyFile(join(storage, 'crash-data'), diskOf('data-restored'))
  await chown(diskOf('data-restored'), launcherUser, launcherUser)
  const { spec } = deaf(
    'restored',
    { terminationGracePeriodSeconds: 0 },
    { devices: { disks: [disk('data', 'vda')] } },
  ) as {
    spec: object
  }
  await cluster.apply({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineConfig',
    metadata: { name: 'restored' },
    spec: {
      template: { spec },
      claimTemplates: [
        {
          name: 'data',
          source: { snapshot: { name: 'crash-data' } },
          spec: { storageClassName: '', resources: size },
        },
      ],
    },
  })
  const dataSource = await cluster.until('the claim of the config', async () => {
    const path = ['get', 'pvc', 'data-restored', '--ignore-not-found', '-o', 'jsonpath={.spec.dataSource}']
    return (await cluster.kubectl(...path)) || undefined
  })
  expect(JSON.parse(dataSource)).toEqual({
    apiGroup: 'snapshot.storage.k8s.io',
    kind: 'VolumeSnapshot',
    name: 'crash-data',
  })
  const start = `/apis/subresources.virtset.io/v1alpha1/namespaces/${cluster.namespace}/virtualmachineconfigs/restored/start`
  await kube.request('PUT', start, {})
  await cluster.untilVm('restored', 'runs', (vm) => vm.status?.phase === 'Running')
  expect((await stat(diskOf('data-restored'))).size).toBe((await stat(diskOf('data-deaf'))).size)

  await cluster.kubectl('delete', 'vmsnap', 'crash')
  await cluster.until('its VolumeSnapshot is deleted with it', async () => {
    const ref = { namespace: cluster.namespace, name: 'crash-data' }
    return (await unlessNotFound(kube.get(volumeSnapshots, ref))) === undefined ? true : undefined
  })
})

test('kubectl vm takes a snapshot of a config, restores and clones it', async () => {
  const main = resolve(import.meta.dirname, '../../cli/main.ts')
  const vm = (...words: string[]) => run([process.execPath, main, ...words, '-n', cluster.namespace])
  await vm('stop', 'restored', '--wait')
  await vm('snapshot', 'restored', '--name', 'again')
  expect(conditionOf(await take('again', 'again-data'), 'Quiesced')).toMatchObject({ reason: 'NotRunning' })

  const claims = ['get', 'pvc', '-o', 'jsonpath={range .items[*]}{.metadata.name} {.spec.dataSource.name}{"\\n"}{end}']
  expect(await vm('restore', 'restored', 'again')).toContain('persistentvolumeclaim/data-restored deleted')
  // Creates the claim again.
  await vm('start', 'restored')
  expect(await vm('clone', 'again', 'cloned')).toBe('virtualmachineconfig.virtset.io/cloned created from again\n')
  for (const claimName of ['data-restored', 'data-cloned']) {
    await cluster.until(`the claim ${claimName} comes from the snapshot`, async () =>
      (await cluster.kubectl(...claims)).includes(`${claimName} again-data`) ? true : undefined,
    )
  }
})

test('a guest with an agent is frozen until its disks are taken, and continues', async () => {
  await cluster.untilVm('linux', 'has an agent', (vm) =>
    Boolean(vm.status?.conditions?.some(({ type, status }) => type === 'AgentConnected' && status === 'True')),
  )
  // On a busy machine, the copy can take longer than a guest stays frozen: then the snapshot must state that.
  for (let attempt = 1; ; attempt++) {
    await cluster.apply(snapshotOf(`quiet-${attempt}`, { name: 'linux' }))
    const status = await take(`quiet-${attempt}`, `quiet-${attempt}-data`)
    const quiesced = conditionOf(status, 'Quiesced')
    const late = ['FreezeExpired', 'FreezeFailed', 'NoResponse', 'AgentUnresponsive']
    if (late.includes(quiesced?.reason ?? '') && attempt < 10) continue
    expect(quiesced).toMatchObject({ status: 'True', reason: 'GuestFrozen' })
    expect(status.excludedVolumes?.toSorted()).toEqual(['root', 'seed'])
    expect(await needsRecovery(join(storage, `quiet-${attempt}-data`))).toBe(false)
    break
  }
  await cluster.until('the guest writes again', async () =>
    (await needsRecovery(diskOf('data-linux'))) ? true : undefined,
  )
  const vm = await cluster.vm('linux')
  expect(vm?.status?.phase).toBe('Running')
})
