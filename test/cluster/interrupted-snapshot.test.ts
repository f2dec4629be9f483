import { resolve } from 'node:path'

import { afterAll, beforeAll, describe, expect, test } from 'vitest'

import type { SnapshotStatus } from '../../api/snapshot.ts'
import { openCluster, type Console, type TestCluster, type VirtualMachine } from './cluster.ts'
import { diskOf, inPhase, isLauncher, isLibvirtd, kill } from './interruption.ts'
import { linuxVolume } from './example-images.ts'
import { killComponent } from './components.ts'
import { deaf, presets } from './vms.ts'

/** Processes that are killed while a guest is frozen for a snapshot. */
let cluster: TestCluster
const impatient = { terminationGracePeriodSeconds: 0 }

beforeAll(async () => {
  cluster = await openCluster()
  await cluster.kubectl('apply', '-f', resolve(import.meta.dirname, '../../manifests/examples/preset-guest-agent.yaml'))
  await cluster.apply(...presets)
})
afterAll(async () => {
  await cluster.kubectl('delete', 'vm', '--all', '--timeout=240s')
  await cluster.close()
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
      { name: 'data', persistentVolumeClaim: { claimName: 'data', capacity: '32Mi', source: { empty: {} } } },
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
    const vm = await cluster.untilVm('linux', 'is frozen', (one) => isFrozen(one, uid))
    // The controller creates it when it has seen that.
    const found = ['get', 'volumesnapshot', `${name}-data`, '--ignore-not-found', '-o', 'name']
    await cluster.until(
      'the storage is asked for a snapshot',
      async () => (await cluster.kubectl(...found)) || undefined,
    )
    return vm
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
      let tries = 0
      return await cluster.until(`the snapshot ${name} is complete`, async () => {
        // The snapshotter would try again by itself, but up to five minutes later, and may not know the class yet.
        if (tries++ % 20 === 0)
          await cluster.kubectl('annotate', '--overwrite', 'volumesnapshot', `${name}-data`, `retry=${tries}`)
        const { status }: { status?: SnapshotStatus } = JSON.parse(
          await cluster.kubectl('get', 'vmsnap', name, '-o', 'json'),
        )
        return status?.phase === 'Ready' || status?.phase === 'Failed' ? status : undefined
      })
    } finally {
      await cluster.kubectl('delete', 'volumesnapshotclass', classOf(name))
    }
  }

  test('of libvirtd, the handler and the controller: the guest is thawed in time, and the snapshot ends', async () => {
    const shell = await login(await cluster.untilVm('linux', 'runs', inPhase('Running')))
    const vm = await takeForever('continued')
    kill(vm, isLibvirtd)
    const back = await Promise.all(['handler', 'controller'].map((component) => killComponent(cluster, component)))
    shell.write('echo written >/data/state && sync && echo thawed-$((40 + 2))\r')
    await shell.hear('thawed-42')
    shell.close()
    for (const isBack of back) await isBack()
    const after = await cluster.untilVm('linux', 'is not frozen', (one) => frozenOf(one)?.state === 'Expired')
    expect(after.status).toMatchObject({ phase: 'Running', podUID: vm.status?.podUID })
    const status = await completed('continued')
    expect(status).toMatchObject({ phase: 'Ready' })
    expect(status.conditions?.find(({ type }) => type === 'Quiesced')).toMatchObject({ reason: 'FreezeExpired' })
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
