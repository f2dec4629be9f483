import { chown, mkdir, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

import { afterAll, beforeAll, expect, test } from 'vitest'

import { run } from '../../../cluster/command.ts'
import { openCluster, processesOfPod, type TestCluster, type VirtualMachine } from '../cluster.ts'
import { linuxVolume } from '../example-images.ts'
import { deaf, presets } from '../vms.ts'

let cluster: TestCluster
/** The directory on the host for persistent volumes. */
let storage: string
/** Persistent volumes have no namespace. */
const persistentVolumes: string[] = []
const launcherUser = 107
const mebibyte = 1024 * 1024

beforeAll(async () => {
  cluster = await openCluster()
  await cluster.apply(...presets)
  storage = join(cluster.state, `storage-${cluster.namespace}`)
  await mkdir(storage)
})
afterAll(async () => {
  await cluster.close()
  await cluster.kubectl('delete', 'pv', ...persistentVolumes, '--wait=false')
  await rm(storage, { recursive: true })
})

/** A claim that is an empty directory of the host; returns the directory. */
async function claim(name: string): Promise<string> {
  const directory = join(storage, name)
  await mkdir(directory)
  await chown(directory, launcherUser, launcherUser)
  const volumeName = `${cluster.namespace}-${name}`
  persistentVolumes.push(volumeName)
  const common = { volumeMode: 'Filesystem', accessModes: ['ReadWriteOnce'], storageClassName: '' }
  await cluster.apply(
    {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: volumeName },
      spec: {
        ...common,
        hostPath: { path: directory },
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
  return directory
}

const attached = (name: string) => ({
  name,
  persistentVolumeClaim: { claimName: name },
  // virtio-scsi releases a disk without the operating system of the guest.
  target: { bus: 'scsi' },
})

async function running(name: string, attachedVolumes: readonly object[] = []): Promise<VirtualMachine> {
  const devices = { controllers: [{ type: 'scsi', model: 'virtio-scsi' }] }
  await cluster.apply(deaf(name, { terminationGracePeriodSeconds: 0, attachedVolumes }, { devices }))
  return cluster.untilVm(name, 'runs', ({ status }) => status?.phase === 'Running')
}

const patch = (name: string, attachedVolumes: readonly object[]) =>
  cluster.kubectl('patch', 'vm', name, '--type=merge', '-p', JSON.stringify({ spec: { attachedVolumes } }))

/** Waits until the volumes are like this: `NAME PHASE REASON`. */
const untilVolumes = (name: string, ...expected: readonly string[]) =>
  cluster.untilVm(
    name,
    `has the volumes ${expected.join(', ')}`,
    ({ status }) =>
      (status?.attachedVolumes ?? []).map((one) => `${one.name} ${one.phase} ${one.reason ?? ''}`.trim()).join(', ') ===
      expected.join(', '),
  )

const untilNoPods = (vm: VirtualMachine) =>
  cluster.until('its pods are gone', async () => {
    const found = await cluster.kubectl('get', 'pods', '-l', `virtset.io/attached-to=${vm.metadata.uid}`, '-o', 'name')
    return found.trim() === '' ? true : undefined
  })

const podOf = ({ status }: VirtualMachine) => status?.attachmentPods?.[0]
const aliases = ({ status }: VirtualMachine): string[] =>
  [...JSON.stringify(status?.domain?.['devices'] ?? {}).matchAll(/ua-attached-[-a-z0-9]+/g)].map(([alias]) => alias)

test('a claim is attached on a cordoned node', async () => {
  await claim('cordoned')
  const vm = await running('cordoned')
  const node = vm.status?.nodeName ?? ''
  await cluster.kubectl('cordon', node)
  try {
    await patch('cordoned', [attached('cordoned')])
    const attachedTo = await untilVolumes('cordoned', 'cordoned Attached')
    expect(attachedTo.status?.nodeName).toBe(node)
  } finally {
    await cluster.kubectl('uncordon', node)
  }
  await cluster.kubectl('delete', 'vm', 'cordoned', '--timeout=240s')
})

test.concurrent('a claim is attached to a running VM, and detached, and attached again', async () => {
  const directory = await claim('data')
  const vm = await running('web')
  expect(vm.status?.attachedVolumes).toBeUndefined()
  for (const _ of ['first', 'second']) {
    await patch('web', [attached('data')])
    const with1 = await untilVolumes('web', 'data Attached')
    expect(aliases(with1)).toEqual(['ua-attached-data'])
    expect((await stat(join(directory, 'disk.img'))).size).toBeGreaterThan(mebibyte)
    await patch('web', [])
    await untilVolumes('web')
    await untilNoPods(vm)
    await cluster.untilVm('web', 'has no pods', ({ status }) => status?.attachmentPods === undefined)
  }
  const ofVm = ['--field-selector', 'involvedObject.name=web']
  const events = await cluster.kubectl('get', 'events', ...ofVm, '-o', 'jsonpath={.items[*].reason}')
  expect(events).toContain('VolumeAttached')
  await cluster.kubectl('delete', 'vm', 'web', '--timeout=240s')
})

test.concurrent('an unknown claim is waited for, and a VM can be created with one', async () => {
  const vm = await running('early', [attached('late')])
  const waiting = await untilVolumes('early', 'late Attaching ClaimNotFound')
  expect(waiting.status?.conditions?.find(({ type }) => type === 'Synchronized')?.message).toContain(
    'persistentvolumeclaim "late" not found',
  )
  await claim('late')
  await untilVolumes('early', 'late Attached')
  await cluster.kubectl('delete', 'vm', 'early', '--timeout=240s')
  await untilNoPods(vm)
})

test.concurrent('a VM keeps its disk while the pod that serves it is deleted, or its container ends', async () => {
  await claim('kept')
  const vm = await running('kept', [attached('kept')])
  const before = await untilVolumes('kept', 'kept Attached')
  const { podName = '', podUID = '' } = podOf(before) ?? {}
  const servers = () => processesOfPod(podUID, (command) => command.includes('qemu-nbd'))
  const killed = servers()
  expect(killed).not.toEqual([])
  for (const pid of killed) process.kill(pid, 'SIGKILL')
  await cluster.until(
    'another process serves it',
    async () => servers().some((pid) => !killed.includes(pid)) || undefined,
  )
  await untilVolumes('kept', 'kept Attached')
  await cluster.kubectl('delete', 'pod', podName, '--grace-period=1', '--wait=false')
  const after = await cluster.untilVm('kept', 'has another pod', (one) => {
    const uid = podOf(one)?.podUID
    return uid !== undefined && uid !== podUID && one.status?.attachedVolumes?.[0]?.phase === 'Attached'
  })
  expect(aliases(after)).toEqual(['ua-attached-kept'])
  expect(after.status?.podUID).toBe(vm.status?.podUID)
  await cluster.kubectl('delete', 'vm', 'kept', '--timeout=240s')
})

test.concurrent('the second VM with a claim gets no disk, and says why', async () => {
  await claim('one')
  const first = await running('first', [attached('one')])
  await untilVolumes('first', 'one Attached')
  const second = await running('second', [attached('one')])
  const waiting = await untilVolumes('second', 'one Attaching ClaimInUse')
  expect(waiting.status?.attachedVolumes?.[0]?.message).toBe(
    'the VM "first" has the claim "one" attached: detach it there, and it is attached here',
  )
  await cluster.kubectl('delete', 'vm', 'first', '--timeout=240s')
  await untilNoPods(first)
  await untilVolumes('second', 'one Attached')
  await cluster.kubectl('delete', 'vm', 'second', '--timeout=240s')
  await untilNoPods(second)
})

/** As `kubectl drain` does for each pod of a node. */
function evict(pod: string): Promise<string> {
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod } }
  const path = `/api/v1/namespaces/${cluster.namespace}/pods/${pod}/eviction`
  return run([...cluster.command, 'create', '--raw', path, '-f', '-'], { input: JSON.stringify(eviction) })
}

test.concurrent('the guest of a node that is drained writes what it has cached to a claim that it has mounted', async () => {
  const directory = await claim('mounted')
  const disk = { type: 'volume', device: 'disk', source: { volume: 'root' }, target: { dev: 'vda' } }
  const domain = { memory: { unit: 'MiB', value: 256 }, devices: { disks: [disk] } }
  const attachedVolumes = [{ name: 'mounted', persistentVolumeClaim: { claimName: 'mounted' } }]
  const volumes = [await linuxVolume(cluster)]
  await cluster.apply(deaf('drained', { terminationGracePeriodSeconds: 120, volumes, attachedVolumes }, domain))
  const vm = await untilVolumes('drained', 'mounted Attached')
  const console = await cluster.console(vm)
  await console.ask('', 'login: ')
  console.write('root\r')
  await console.hear('Password: ')
  console.write('virtset\r')
  await console.ask('echo shell-$((40 + 2))', 'shell-42')
  console.write(
    'mkdir -p /mnt && mkfs.ext4 -q -O ^has_journal /dev/vdb && mount /dev/vdb /mnt && echo cached >/mnt/state && echo written-$((40 + 2))\r',
  )
  await console.hear('written-42')
  console.close()
  const launcher = ['get', 'pods', '-l', 'virtset.io/vm-name=drained', '-o', 'jsonpath={.items[*].metadata.name}']
  // The pod that serves the claim first: it must not end before the guest.
  for (const pod of [podOf(vm)?.podName ?? '', await cluster.kubectl(...launcher)]) await evict(pod)
  const ended = await cluster.untilVm('drained', 'has ended', ({ status }) =>
    ['Succeeded', 'Failed'].includes(status?.phase ?? ''),
  )
  await untilNoPods(ended)
  expect(await run(['debugfs', '-R', 'cat /state', join(directory, 'disk.img')])).toBe('cached\n')
  await cluster.kubectl('delete', 'vm', 'drained', '--timeout=240s')
})
