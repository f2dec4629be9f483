import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest'

import { run } from '../../cluster/command.ts'
import { findQemus } from '../chaos/observe.ts'
import { openCluster, processesOfPod, type VirtualMachine, type TestCluster } from './cluster.ts'
import { hasSpareNode, openSpare, type Spare } from './spare.ts'
import { deaf } from './vms.ts'

/** Users and operators take away the pod of a VM or its node, and a QEMU hangs. */
let cluster: TestCluster
beforeAll(async () => {
  cluster = await openCluster()
})
afterAll(() => cluster.close())

const endedAs = (reason: string) => (vm: VirtualMachine) => vm.status?.phase === 'Failed' && vm.status.reason === reason
const readyReason = ({ status }: VirtualMachine) => status?.conditions?.find(({ type }) => type === 'Ready')?.reason
const qemusOf = ({ status }: VirtualMachine) =>
  processesOfPod(status?.podUID ?? 'no pod', (command) => command.startsWith('/usr/bin/qemu-system-'))

/** Of tests that run while others break the spare node. */
const nodeSelector = { 'kubernetes.io/hostname': 'node1' }

/** A running VM that ignores the power button, and the name of its pod. */
async function running(
  name: string,
  terminationGracePeriodSeconds: number,
): Promise<{ vm: VirtualMachine; pod: string }> {
  await cluster.apply(deaf(name, { terminationGracePeriodSeconds, nodeSelector }))
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

/** A group of one VM. */
function group(name: string, more: object = {}): object {
  const { spec } = deaf('template', { terminationGracePeriodSeconds: 0, ...more }) as { spec: object }
  const labels = { app: name }
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachineGroup',
    metadata: { name },
    spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
  }
}

/** The running VM of a group, other than `except`. */
async function runningVmOf(name: string, except?: string): Promise<VirtualMachine | undefined> {
  const vms = await cluster.kubectl('get', 'vm', '-l', `app=${name}`, '-o', 'json')
  const all: readonly VirtualMachine[] = JSON.parse(vms).items
  return all.find(({ metadata, status }) => status?.phase === 'Running' && metadata.name !== except)
}

/** The status can be read before its event is written. @returns the messages of the event */
function untilWarned(name: string, reason: string): Promise<string> {
  const selector = `involvedObject.name=${name},type=Warning,reason=${reason}`
  const path = 'jsonpath={.items[*].message}'
  return cluster.until(
    `a warning ${reason}`,
    async () => (await cluster.kubectl('get', 'events', '--field-selector', selector, '-o', path)) || undefined,
  )
}

async function untilCountedAsDisrupted(name: string): Promise<void> {
  const status = await cluster.until('the group has counted it', async () => {
    const { status: now } = JSON.parse(await cluster.kubectl('get', 'vmg', name, '-o', 'json'))
    return now?.disrupted === 1 ? now : undefined
  })
  expect(status.failed ?? 0).toBe(0)
}

test.concurrent('a VM whose pod is deleted fails, and reports that', async () => {
  const { pod } = await running('pod-deleted', 0)
  await cluster.kubectl('delete', 'pod', pod, '--wait=false')
  const failed = await cluster.untilVm('pod-deleted', 'has failed', endedAs('PodDeleted'))
  expect(failed.status?.message).toContain(`the launcher pod ${pod} was deleted`)
  expect(qemusOf(failed)).toEqual([])
})

test.concurrent.each([
  ['not-alive', 'liveness', 'LivenessProbeFailed'],
  ['not-booted', 'startup', 'StartupProbeFailed'],
])('the VM %s, whose %s probe fails, is ended with the reason %s', async (name, kind, reason) => {
  const probe = { httpGet: { port: 'http' }, initialDelaySeconds: 20, periodSeconds: 1, failureThreshold: 2 }
  const spec = { ports: [{ name: 'http', port: 80 }], [`${kind}Probe`]: probe, terminationGracePeriodSeconds: 1 }
  await cluster.apply(deaf(name, { ...spec, nodeSelector }, { devices: { interfaces: [{}] } }))
  const failed = await cluster.untilVm(name, 'has failed', endedAs(reason))
  expect(qemusOf(failed)).toEqual([])
  await untilWarned(name, reason)
})

test.concurrent('a VM of a group that is evicted reports that, is not a failure of the group, and is replaced', async () => {
  await cluster.apply(group('evicted', { nodeSelector }))
  const { metadata } = await cluster.until('a VM of the group', () => runningVmOf('evicted'))
  await evict(await podOf(metadata.name))
  await cluster.until('another VM of the group', () => runningVmOf('evicted', metadata.name))
  await untilWarned(metadata.name, 'EvictionByEvictionAPI')
  await untilCountedAsDisrupted('evicted')
  await cluster.kubectl('delete', 'vmg', 'evicted', '--timeout=240s')
})

test.concurrent('a VM whose pod is deleted by force has not failed before its QEMU has ended', async () => {
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

test.concurrent('the name of a VM that is deleted with --cascade=orphan is taken until its QEMU has ended', async () => {
  const graceSeconds = 5
  const { vm } = await running('orphan', graceSeconds)
  await cluster.kubectl('delete', 'vm', 'orphan', '--cascade=orphan', '--wait=false')
  await cluster.until('the VM is gone', async () => {
    const isGone = await cluster.isGone('orphan')
    expect({ isGone, qemus: qemusOf(vm).length }).not.toEqual({ isGone: true, qemus: 1 })
    return isGone ? true : undefined
  })
  expect(await podOf('orphan')).toBe('')
})

test.concurrent('a VM whose QEMU hangs is not ready until it responds again', async () => {
  const { vm } = await running('hangs', 0)
  const [qemu = 0] = qemusOf(vm)
  process.kill(qemu, 'SIGSTOP')
  await cluster.untilVm('hangs', 'is not ready', (now) => readyReason(now) === 'QEMUUnresponsive')
  process.kill(qemu, 'SIGCONT')
  await cluster.untilVm('hangs', 'is ready', ({ status }) =>
    Boolean(status?.conditions?.some((one) => one.type === 'Ready' && one.status === 'True')),
  )
  expect(qemusOf(vm)).toEqual([qemu])
})

/** On the cluster of `make up`, which has no spare node, this block does not run. Its tests run one after the other. */
describe.runIf(hasSpareNode())('the node of a VM, the spare node of `make test`,', { concurrent: true }, () => {
  const oneByOne = { concurrent: false }
  let spare: Spare
  beforeAll(() => {
    spare = openSpare(cluster)
  })
  afterEach(() => spare.repair())

  /** Starts a VM and a group on the spare node, which is cordoned again. @returns the VM of the group */
  async function startOnSpare(name: string): Promise<VirtualMachine> {
    const isOnSpare = { key: 'kubernetes.io/hostname', operator: 'In', values: [spare.name] }
    const preferred = { weight: 100, preference: { matchExpressions: [isOnSpare] } }
    const nodeAffinity = { preferredDuringSchedulingIgnoredDuringExecution: [preferred] }
    await spare.uncordon()
    const onSpare = { 'kubernetes.io/hostname': spare.name }
    await cluster.apply(deaf(name, { terminationGracePeriodSeconds: 0, nodeSelector: onSpare }))
    // From then on the scheduler knows that the node is not cordoned.
    await cluster.untilVm(name, 'has a node', ({ status }) => status?.nodeName === spare.name)
    await cluster.apply(group(`${name}-group`, { affinity: { nodeAffinity } }))
    await cluster.untilVm(name, 'runs', ({ status }) => status?.phase === 'Running')
    const vm = await cluster.until('a VM of the group', () => runningVmOf(`${name}-group`))
    expect(vm.status?.nodeName).toBe(spare.name)
    await spare.cordon()
    return vm
  }

  /** Waits until the group runs another VM. Its VMs never have two QEMUs meanwhile. @returns the VM's node */
  async function untilReplaced(name: string, lost: VirtualMachine): Promise<string | undefined> {
    const uids = new Set<string>()
    const replacement = await cluster.until('another VM of the group', async () => {
      const path = 'jsonpath={.items[*].metadata.uid}'
      for (const uid of (await cluster.kubectl('get', 'pods', '-l', `app=${name}`, '-o', path)).split(' '))
        uids.add(uid)
      expect(findQemus().filter(({ podUid }) => uids.has(podUid)).length).toBeLessThanOrEqual(1)
      return runningVmOf(name, lost.metadata.name)
    })
    await untilCountedAsDisrupted(name)
    return replacement.status?.nodeName
  }

  /** What a VM and a VM of a group report that have lost their node. */
  async function endOf(name: string, inGroup: VirtualMachine, reason: string) {
    const node = await untilReplaced(`${name}-group`, inGroup)
    const vm = await cluster.untilVm(name, `has failed as ${reason}`, endedAs(reason))
    const event = await untilWarned(name, reason)
    await cluster.kubectl('delete', 'vmg', `${name}-group`, '--wait=false')
    const qemus = [...qemusOf(vm), ...qemusOf(inGroup)]
    return { message: vm.status?.message, event, qemus, isReplacedElsewhere: node !== spare.name }
  }

  const disruption = (words: string) => {
    const message = expect.stringContaining(words)
    return { message, event: message, qemus: [], isReplacedElsewhere: true }
  }

  test('is drained: the VM reports that, and its group replaces it elsewhere', oneByOne, async () => {
    const inGroup = await startOnSpare('drained')
    await cluster.kubectl('drain', spare.name, '--ignore-daemonsets', '--delete-emptydir-data', '--timeout=240s')
    expect(await endOf('drained', inGroup, 'EvictionByEvictionAPI')).toEqual(
      disruption('the launcher pod was evicted, as `kubectl drain` does'),
    )
  })

  test(
    'is short of memory: the VM reports the kubelet’s reason, and its group replaces it elsewhere',
    oneByOne,
    async () => {
      const inGroup = await startOnSpare('starved')
      // More than any node has: nothing needs to be filled.
      await spare.reconfigureKubelet(`evictionSoft: {memory.available: 1Pi}
evictionSoftGracePeriod: {memory.available: 0s}
evictionMaxPodGracePeriod: 60
`)
      expect(await endOf('starved', inGroup, 'Evicted')).toEqual(disruption('The node was low on resource: memory'))
    },
  )

  test(
    'is lost: nothing is replaced until the node is declared out of service, then the group replaces its VM',
    oneByOne,
    async () => {
      const inGroup = await startOnSpare('lost')
      await spare.powerOff()
      // The node controller does this when the kubelet has not reported for 50 s.
      const ready = { type: 'Ready', status: 'Unknown', reason: 'NodeStatusUnknown', message: 'powered off by a test' }
      const patch = JSON.stringify({ status: { conditions: [ready] } })
      await cluster.kubectl('patch', 'node', spare.name, '--subresource=status', '-p', patch)
      const isUnknown = ({ status }: VirtualMachine) =>
        status?.phase === 'Unknown' && status.reason === 'NodeUnreachable'
      for (const name of ['lost', inGroup.metadata.name]) await cluster.untilVm(name, 'is unknown', isUnknown)
      expect(await runningVmOf('lost-group')).toBeUndefined()
      await cluster.kubectl('taint', 'node', spare.name, 'node.kubernetes.io/out-of-service=nodeshutdown:NoExecute')
      expect(await endOf('lost', inGroup, 'DeletionByTaintManager')).toEqual(
        disruption('a taint of the node evicted the launcher pod'),
      )
    },
  )
})
