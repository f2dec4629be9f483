import { afterAll, beforeAll, expect, test } from 'vitest'

import { run } from '../../cluster/command.ts'
import { openCluster, processesOfPod, type Machine, type TestCluster } from './cluster.ts'
import { deaf } from './vms.ts'

/** Users and operators take away the pod of a VM, and a QEMU hangs. */
let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
})
afterAll(() => cluster.close())

const endedAs = (reason: string) => (vm: Machine) => vm.status?.phase === 'Failed' && vm.status.reason === reason
const readyReason = ({ status }: Machine) => status?.conditions?.find(({ type }) => type === 'Ready')?.reason
const qemusOf = ({ status }: Machine) =>
  processesOfPod(status?.podUID ?? 'no pod', (command) => command.startsWith('/usr/bin/qemu-system-'))

/** A running VM that ignores the power button, and the name of its pod. */
async function running(name: string, terminationGracePeriodSeconds: number): Promise<{ vm: Machine; pod: string }> {
  await cluster.apply(deaf(name, { terminationGracePeriodSeconds }))
  const vm = await cluster.untilVm(name, 'runs', ({ status }) => status?.phase === 'Running')
  expect(qemusOf(vm)).toHaveLength(1)
  return { vm, pod: await podOf(name) }
}

const podOf = (name: string) =>
  cluster.kubectl('get', 'pods', '-l', `virtset.io/vm-name=${name}`, '-o', 'jsonpath={.items[*].metadata.name}')

/** As `kubectl drain` does for each pod of a node. */
function evict(pod: string): Promise<string> {
  const eviction = { apiVersion: 'policy/v1', kind: 'Eviction', metadata: { name: pod } }
  const path = `/api/v1/namespaces/${cluster.namespace}/pods/${pod}/eviction`
  return run([...cluster.command, 'create', '--raw', path, '-f', '-'], { input: JSON.stringify(eviction) })
}

test('a VM whose pod is deleted fails, and reports that', async () => {
  const { pod } = await running('pod-deleted', 0)
  await cluster.kubectl('delete', 'pod', pod, '--wait=false')
  const failed = await cluster.untilVm('pod-deleted', 'has failed', endedAs('PodDeleted'))
  expect(failed.status?.message).toContain(`the launcher pod ${pod} was deleted`)
  expect(qemusOf(failed)).toEqual([])
})

test('a VM of a group that is evicted reports that, is no failure of the group, and is replaced', async () => {
  const { spec } = deaf('template', { terminationGracePeriodSeconds: 0 }) as { spec: object }
  const labels = { app: 'evicted' }
  await cluster.apply({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineGroup',
    metadata: { name: 'group' },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  })
  const readyVm = async (except?: string) => {
    const vms = await cluster.kubectl('get', 'vm', '-l', 'app=evicted', '-o', 'json')
    const all: readonly Machine[] = JSON.parse(vms).items
    return all.find(({ metadata, status }) => status?.phase === 'Running' && metadata.name !== except)
  }
  const { metadata } = await cluster.until('a VM of the group', () => readyVm())
  await evict(await podOf(metadata.name))
  await cluster.until('another VM of the group', () => readyVm(metadata.name))
  const events = ['get', 'events', '--field-selector', `involvedObject.name=${metadata.name},type=Warning`]
  expect(await cluster.kubectl(...events)).toContain('EvictionByEvictionAPI')
  const group = await cluster.until('the group has counted it', async () => {
    const { status } = JSON.parse(await cluster.kubectl('get', 'vmg', 'group', '-o', 'json'))
    return status?.disrupted === 1 ? status : undefined
  })
  expect(group.failed ?? 0).toBe(0)
  await cluster.kubectl('delete', 'vmg', 'group', '--timeout=60s')
})

test('a VM whose pod is deleted by force has not failed before its QEMU has ended', async () => {
  const { vm, pod } = await running('pod-forced', 0)
  const [qemu = 0] = qemusOf(vm)
  // Only the kubelet can end it now, so the API server has no pod before it ends.
  process.kill(qemu, 'SIGSTOP')
  await cluster.kubectl('delete', 'pod', pod, '--force', '--grace-period=0', '--wait=false')
  await cluster.until('the VM has an end while it has no QEMU', async () => {
    const now = await cluster.vm('pod-forced')
    const hasEnded = now?.status?.phase === 'Failed'
    expect({ hasEnded, qemus: qemusOf(vm).length }).not.toEqual({ hasEnded: true, qemus: 1 })
    return hasEnded ? true : undefined
  })
})

test('the name of a VM that is deleted with --cascade=orphan is taken until its QEMU has ended', async () => {
  const graceSeconds = 5
  const { vm } = await running('orphan', graceSeconds)
  await cluster.kubectl('delete', 'vm', 'orphan', '--cascade=orphan', '--wait=false')
  await cluster.until('the VM is gone', async () => {
    const isGone = (await cluster.vm('orphan')) === undefined
    expect({ isGone, qemus: qemusOf(vm).length }).not.toEqual({ isGone: true, qemus: 1 })
    return isGone ? true : undefined
  })
  expect(await podOf('orphan')).toBe('')
})

test('a VM whose QEMU hangs is not ready until it responds again', async () => {
  const { vm } = await running('hangs', 0)
  const [qemu = 0] = qemusOf(vm)
  process.kill(qemu, 'SIGSTOP')
  await cluster.untilVm('hangs', 'is not ready', (now) => readyReason(now) === 'QEMUUnresponsive', 120_000)
  process.kill(qemu, 'SIGCONT')
  await cluster.untilVm('hangs', 'is ready', ({ status }) =>
    Boolean(status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True')),
  )
  expect(qemusOf(vm)).toEqual([qemu])
})
