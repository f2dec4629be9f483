import { expect, it } from 'vitest'
import { storedVm } from '../test/stored-vm.ts'
import { launcherPod } from './launcher-pod.ts'
import { isPodOf, vmUidOf } from './own-pod.ts'
import type { PodStatus } from './pod.ts'
import { parserOf } from '../runtime/partial-json.ts'
import { isWhole, readPods, slimAttachment, slimPod, slimStartingPod } from './slim-pod.ts'

const vm = storedVm()
const pod = (status: PodStatus) => {
  const made = launcherPod(vm, { image: 'i', claims: new Map() })
  const metadata = { ...made.metadata, name: 'p', uid: 'pod-1', resourceVersion: '5', deletionTimestamp: 't' }
  return { ...made, metadata, spec: { ...made.spec, nodeName: 'n1' }, status }
}

it('of a running pod, the controller caches its VM, its node and what ends it', () => {
  const evicted = { type: 'DisruptionTarget', status: 'True', reason: 'EvictionByEvictionAPI' } as const
  const whole = pod({
    phase: 'Failed',
    reason: 'Evicted',
    podIP: '10.0.0.1',
    conditions: [{ type: 'Ready', status: 'False' }, { type: 'PodScheduled', status: 'True' }, evicted],
    containerStatuses: [{ name: 'compute', state: { terminated: { exitCode: 1 } } }],
  })
  const slim = slimPod(whole)
  expect([isWhole(whole), isWhole(slim)]).toEqual([true, false])
  expect([vmUidOf(slim), isPodOf(vm, slim)]).toEqual([vm.metadata.uid, true])
  expect(slim.metadata).toEqual({
    name: 'p',
    namespace: vm.metadata.namespace,
    uid: 'pod-1',
    resourceVersion: '5',
    deletionTimestamp: 't',
    labels: { 'virtset.io/vm-uid': vm.metadata.uid, 'virtset.io/vm-name': vm.metadata.name },
    annotations: { 'virtset.io/labels': '{}' },
  })
  expect(slim.spec.nodeName).toBe('n1')
  expect(slim.spec.containers[0]?.resources.limits['memory']).toBe(whole.spec.containers[0]?.resources.limits['memory'])
  expect(slim.status).toEqual({
    phase: 'Failed',
    reason: 'Evicted',
    conditions: [evicted],
    containerStatuses: [{ name: 'compute', state: { terminated: { exitCode: 1 } } }],
  })
})

it('is read without what others add to its metadata, and with all that is cached', () => {
  const whole = pod({ phase: 'Pending', reason: 'r' })
  const networks = { 'k8s.v1.cni.cncf.io/networks': '[]' }
  const own = { ...whole.metadata.labels, 'virtset.io/attached-to': 'x' }
  const metadata = { ...whole.metadata, annotations: { ...whole.metadata.annotations, ...networks }, labels: own }
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`l${index}`, '']))
  const owners = Array.from({ length: 100 }, (_, index) => ({
    apiVersion: 'v1',
    kind: 'X',
    name: 'x',
    uid: `u${index}`,
  }))
  const enlarged = {
    ...whole,
    metadata: {
      ...metadata,
      deletionGracePeriodSeconds: 5,
      labels: { ...own, ...many },
      annotations: { ...metadata.annotations, ...many },
      ownerReferences: [...(metadata.ownerReferences ?? []), ...owners],
      managedFields: [{}],
    },
  }
  const read = parserOf(readPods.read)(Buffer.from(JSON.stringify(enlarged)))
  const ownerReferences = enlarged.metadata.ownerReferences.slice(0, 64)
  const { managedFields: _managed, ...kept } = { ...enlarged.metadata, ...metadata, ownerReferences }
  expect(read).toEqual(JSON.parse(JSON.stringify({ ...whole, metadata: kept })))
  for (const slim of [slimPod, slimStartingPod, slimAttachment])
    expect(slim(read as typeof whole)).toEqual(JSON.parse(JSON.stringify(slim(enlarged))))
})

it('has of a status only the beginning of long texts', () => {
  const text = 'x'.repeat(1_000_000)
  const long = { reason: text, message: text }
  const whole = pod({
    phase: 'Failed',
    ...long,
    conditions: [{ type: 'PodScheduled', status: 'False', ...long }],
    containerStatuses: [
      { name: 'compute', state: { waiting: long }, lastState: { terminated: { exitCode: 1, ...long } } },
      { name: 'other', state: { terminated: { exitCode: 1, ...long } } },
    ],
  })
  const ofLauncher = slimPod(whole).status
  expect(JSON.stringify(ofLauncher).length).toBeLessThan(9 * 4096)
  expect(ofLauncher?.conditions?.[0]?.message).toMatch(/^x+…$/)
  // The longest that the schema of a VM's status accepts.
  expect(ofLauncher?.reason).toHaveLength(253)
  expect(JSON.stringify(slimAttachment(whole).status).length).toBeLessThan(9 * 4096)
  const withoutReason = pod({ conditions: [{ type: 'PodScheduled', status: 'False', message: text }] })
  expect(slimPod(withoutReason).status?.conditions?.[0]).not.toHaveProperty('reason')
})

it('has its networks until its VM has taken it, unless others made them long', () => {
  const whole = pod({ phase: 'Pending' })
  const withNetworks = (text: string) => {
    const annotations = { 'k8s.v1.cni.cncf.io/networks': text, other: 'x' }
    return { ...whole, metadata: { ...whole.metadata, annotations } }
  }
  const annotations = { 'k8s.v1.cni.cncf.io/networks': '[{"name":"lab"}]' }
  expect(slimStartingPod(withNetworks('[{"name":"lab"}]')).metadata.annotations).toEqual(annotations)
  expect(slimPod(withNetworks('[{"name":"lab"}]')).metadata.annotations).toBeUndefined()
  expect(slimStartingPod(withNetworks('x'.repeat(16_385))).metadata.annotations).toBeUndefined()
})

it('has the VMs that own it and that its label does not name, and no owner that a user added', () => {
  const owner = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', name: 'x', uid: 'other' }
  const users = { apiVersion: 'v1', kind: 'X', name: 'x', uid: 'user' }
  const whole = pod({ phase: 'Running' })
  const metadata = { ...whole.metadata, ownerReferences: [...(whole.metadata.ownerReferences ?? []), owner, users] }
  expect(slimPod({ ...whole, metadata }).metadata.ownerReferences).toEqual([owner])
})

it('has the record of the labels of its VM, also with its networks, unless it is too long', () => {
  const whole = pod({ phase: 'Pending' })
  const withRecord = (text: string) => {
    const annotations = { 'k8s.v1.cni.cncf.io/networks': '[]', 'virtset.io/labels': text }
    return { ...whole, metadata: { ...whole.metadata, annotations } }
  }
  const annotations = { 'k8s.v1.cni.cncf.io/networks': '[]', 'virtset.io/labels': '{"a":"1"}' }
  expect(slimStartingPod(withRecord('{"a":"1"}')).metadata.annotations).toEqual(annotations)
  expect(slimPod(withRecord('x'.repeat(65_537))).metadata.annotations).toBeUndefined()
})

it('has its spec until its VM has taken it, and nothing that users write into its metadata', () => {
  const text = 'x'.repeat(200_000)
  const whole = pod({ phase: 'Pending' })
  const annotations = { ...whole.metadata.annotations, text }
  const annotated = { ...whole, metadata: { ...whole.metadata, annotations, finalizers: [text] } }
  const slim = slimStartingPod(annotated)
  expect([slim.spec, slim.metadata]).toEqual([whole.spec, slimPod(whole).metadata])
  const tolerations = [{ key: text, operator: 'Exists' as const }]
  expect(isWhole(slimStartingPod({ ...whole, spec: { ...whole.spec, tolerations } }))).toBe(false)
})

it('of a pod that serves a claim, it has what explains its failures, and nothing that users write', () => {
  const text = 'x'.repeat(200_000)
  const waiting = { reason: 'CrashLoopBackOff' }
  const scheduled = { type: 'PodScheduled', status: 'False' } as const
  const whole = pod({
    phase: 'Pending',
    conditions: [scheduled, { type: 'Ready', status: 'False' }],
    containerStatuses: [{ name: 'volume', state: { waiting } }],
  })
  const [container] = whole.spec.containers
  const spec = {
    ...whole.spec,
    containers: [{ ...container!, image: text }],
    tolerations: [{ key: text, operator: 'Exists' as const }],
  }
  const labels = { 'virtset.io/attached-to': 'vm', text }
  const slim = slimAttachment({ ...whole, spec, metadata: { ...whole.metadata, labels, finalizers: [text] } })
  expect(slim).toMatchObject({
    metadata: { name: 'p', uid: 'pod-1', deletionTimestamp: 't', labels: { 'virtset.io/attached-to': 'vm' } },
    spec: { nodeName: 'n1', containers: [{ volumeMounts: container?.volumeMounts }] },
    status: { phase: 'Pending', conditions: [scheduled], containerStatuses: [{ name: 'volume', state: { waiting } }] },
  })
  expect(JSON.stringify(slim).length).toBeLessThan(4000)
})
