import { open } from 'node:fs/promises'
import { join, resolve } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { run } from '../../../cluster/command.ts'
import type { SnapshotStatus } from '../../../api/snapshot.ts'
import { openCluster, type Console, type TestCluster } from '../cluster.ts'
import { linuxVolume } from '../example-images.ts'
import { deaf, presets } from '../vms.ts'

/** The claims are of the CSI driver in `cluster/csi`, whose volumes and snapshots are files of the same content. */
let cluster: TestCluster
/** A shell on the console of the Linux guest. */
let shell: Console

beforeAll(async () => {
  cluster = await openCluster()
  await cluster.kubectl(
    'apply',
    '-f',
    resolve(import.meta.dirname, '../../../manifests/examples/preset-guest-agent.yaml'),
  )
  await cluster.apply(...presets, await linux(), claim('data-deaf'), withoutAgent)
  await vm('start', 'linux')
})
afterAll(() => cluster.close())

const storageClassName = 'files'
const resources = (storage: string) => ({ requests: { storage } })
/** XFS, which the storage uses, is not smaller than 300 MiB. */
const fileSystem = { storageClassName, resources: resources('320Mi') }
const impatient = { terminationGracePeriodSeconds: 0 }
const kubectlVm = resolve(import.meta.dirname, '../../../cli/main.ts')
const vm = (...words: string[]) => run([process.execPath, kubectlVm, ...words, '-n', cluster.namespace])

const claim = (name: string) => ({
  apiVersion: 'v1',
  kind: 'PersistentVolumeClaim',
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], ...fileSystem },
})
const disk = (volume: string, dev: string) => ({ type: 'volume', device: 'disk', source: { volume }, target: { dev } })

const withoutAgent = deaf(
  'deaf',
  {
    ...impatient,
    volumes: [
      { name: 'data', persistentVolumeClaim: { claimName: 'data-deaf', capacity: '320Mi', source: { empty: {} } } },
    ],
  },
  { devices: { disks: [disk('data', 'vda')] } },
)

/** The example's Linux in a config, with a file system on a block volume, and a disk in a file. */
async function linux(): Promise<object> {
  const root = await linuxVolume(cluster)
  const make = 'mkfs.ext4 -q /dev/vdb && mount /dev/vdb /data && echo original >/data/state'
  const userData = `#cloud-config\nruncmd:\n- mkdir -p /data\n- mount /dev/vdb /data || { ${make}; }\n`
  const seed = { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } }
  const { spec } = deaf(
    'linux',
    { ...impatient, volumes: [root, { name: 'seed', cloudInit: { userData } }] },
    {
      memory: { unit: 'MiB', value: 256 },
      devices: { disks: [disk('root', 'vda'), disk('data', 'vdb'), disk('file', 'vdc'), seed] },
    },
  ) as { spec: object }
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineConfig',
    metadata: { name: 'linux' },
    spec: {
      template: { metadata: { labels: { 'guest-agent': 'yes' } }, spec },
      claimTemplates: [
        { name: 'data', spec: { storageClassName, volumeMode: 'Block', resources: resources('32Mi') } },
        { name: 'file', spec: fileSystem },
      ],
    },
  }
}

/** Opens a shell when the Linux guest has booted. */
async function login(): Promise<Console> {
  const console = await cluster.console(
    await cluster.untilVm('linux', 'runs', ({ status }) => status?.phase === 'Running'),
  )
  await console.ask('', 'login: ')
  console.write('root\r')
  await console.hear('Password: ')
  console.write('virtset\r')
  await console.ask('echo shell-$((40 + 2))', 'shell-42')
  return console
}

async function statusOf(name: string): Promise<SnapshotStatus> {
  return JSON.parse(await cluster.kubectl('get', 'vmsnap', name, '-o', 'json')).status ?? {}
}
const conditionOf = ({ conditions = [] }: SnapshotStatus, type: string) =>
  conditions.find((condition) => condition.type === type)

/** A snapshot that is ready. */
async function take(source: string, name: string): Promise<SnapshotStatus> {
  await vm('snapshot', source, '--name', name, '--wait', '--timeout', '240')
  return statusOf(name)
}

const read = (path: string, ...of: string[]) => cluster.kubectl('get', ...of, '-o', `jsonpath={${path}}`)

/** The file of the volume of a claim. */
async function volumeOf(claimName: string): Promise<string> {
  const name = await cluster.until(`the claim ${claimName} is bound`, async () =>
    (await read('.status.phase', 'pvc', claimName)) === 'Bound'
      ? read('.spec.volumeName', 'pvc', claimName)
      : undefined,
  )
  return join(cluster.state, 'csi/volumes', await read('.spec.csi.volumeHandle', 'pv', name))
}

/** The file of a VolumeSnapshot. */
async function snapshotOf(volumeSnapshot: string): Promise<string> {
  const content = await read('.status.boundVolumeSnapshotContentName', 'volumesnapshot', volumeSnapshot)
  return join(cluster.state, 'csi/snapshots', await read('.status.snapshotHandle', 'volumesnapshotcontent', content))
}

/** Whether an ext4 file system must replay its journal: the kernel clears this flag when it freezes or unmounts it. */
async function needsRecovery(image: string): Promise<boolean> {
  const file = await open(image)
  const { buffer } = await file.read(Buffer.alloc(1024), 0, 1024, 1024)
  await file.close()
  expect(buffer.readUInt16LE(0x38)).toBe(0xef53)
  return (buffer.readUInt32LE(0x60) & 4) !== 0
}

test('the disk of a guest without an agent is taken as it is', async () => {
  await cluster.untilVm('deaf', 'runs', ({ status }) => status?.phase === 'Running')
  const status = await take('deaf', 'crash')
  expect(status.volumes).toEqual([{ name: 'data', claimName: 'data-deaf', volumeSnapshotName: 'crash-data' }])
  expect(conditionOf(status, 'Quiesced')).toMatchObject({ status: 'False', reason: 'NoAgent' })

  await cluster.kubectl('delete', 'vmsnap', 'crash')
  await cluster.kubectl('wait', 'volumesnapshot/crash-data', '--for=delete', '--timeout=240s')
})

test('a claim grows while its guest runs, also a file up to its capacity', async () => {
  shell = await login()
  const grow = (name: string, storage: string) =>
    cluster.kubectl('patch', 'pvc', name, '-p', JSON.stringify({ spec: { resources: resources(storage) } }))
  await grow('data-linux', '64Mi')
  await grow('file-linux', '640Mi')
  // In sectors. At first, the file was smaller than its capacity, because its file system was.
  await shell.ask('echo $(cat /sys/block/vdb/size) $(cat /sys/block/vdc/size)', '131072 655360')
  // The kubelet reports it after the file system has grown, which the launcher sees at once.
  await cluster.until(
    'the claim has grown',
    async () => (await read('.status.capacity.storage', 'pvc', 'file-linux')) === '640Mi' || undefined,
  )
})

test('a guest with an agent is frozen until its disks are taken, and continues', async () => {
  await cluster.untilVm('linux', 'has an agent', ({ status }) =>
    Boolean(status?.conditions?.some((each) => each.type === 'AgentConnected' && each.status === 'True')),
  )
  // On a busy machine, the storage can take longer than a guest stays frozen: then the snapshot must state that.
  for (let attempt = 1; ; attempt++) {
    const status = await take('linux', `quiet-${attempt}`)
    const quiesced = conditionOf(status, 'Quiesced')
    const late = ['FreezeExpired', 'FreezeFailed', 'NoResponse', 'AgentUnresponsive']
    if (late.includes(quiesced?.reason ?? '') && attempt < 10) {
      await cluster.kubectl('delete', 'vmsnap', `quiet-${attempt}`)
      continue
    }
    expect(quiesced).toMatchObject({ status: 'True', reason: 'GuestFrozen' })
    expect(status.volumes?.map(({ name }) => name).toSorted()).toEqual(['data', 'file'])
    expect(status.excludedVolumes?.toSorted()).toEqual(['root', 'seed'])
    expect(await needsRecovery(await snapshotOf(`quiet-${attempt}-data`))).toBe(false)
    break
  }
  const volume = await volumeOf('data-linux')
  await cluster.until('the guest writes again', async () => ((await needsRecovery(volume)) ? true : undefined))
  expect((await cluster.vm('linux'))?.status?.phase).toBe('Running')
})

test('kubectl vm restores and clones a config whose claims have grown', async () => {
  const [snapshot = ''] = (await read('.items[*].metadata.name', 'vmsnap')).split(' ')
  await shell.ask('echo changed >/data/state; sync; cat /data/state', 'changed\r\n')
  shell.close()
  await vm('stop', 'linux', '--wait')
  const restored = await vm('restore', 'linux', snapshot)
  for (const name of ['data-linux', 'file-linux']) expect(restored).toContain(`persistentvolumeclaim/${name} deleted`)
  // From now on, the external-snapshotter keeps the VolumeSnapshots.
  expect(await read('.spec.dataSource.name', 'pvc', 'data-linux')).toBe(`${snapshot}-data`)
  expect(await read('.spec.dataSource.name', 'pvc', 'file-linux')).toBe(`${snapshot}-file`)
  await vm('start', 'linux')
  expect(await vm('clone', snapshot, 'cloned')).toBe(
    `virtualmachineconfig.virtset.io/cloned created from ${snapshot}\n`,
  )
  expect(await run(['debugfs', '-R', 'cat /state', await volumeOf('data-cloned')])).toBe('original\n')
  shell = await login()
  await shell.ask('echo $(cat /data/state /sys/block/vdb/size)', 'original 131072')
  shell.close()
})
