import { expect, test } from 'vitest'
import type { VirtualMachineGroup } from '../api/group.ts'
import { createKubeClient } from '../runtime/kube.ts'
import type { Persisted } from '../runtime/resource.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { storedVm } from '../test/stored-vm.ts'
import { bindClaims, createClaims } from './vm-claims.ts'

const claims = '/api/v1/persistentvolumeclaims'
const apiVersion = 'virtset.io/v1alpha1'
const group: Persisted<VirtualMachineGroup> = {
  apiVersion,
  kind: 'VirtualMachineGroup',
  metadata: { name: 'web', namespace: 'default', uid: 'new', resourceVersion: '1' },
  spec: {
    selector: { matchLabels: {} },
    claimTemplates: [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }],
    template: { spec: { domain: {} } },
  },
}
const vm = storedVm({ metadata: { name: 'web-0' } })
const ownerOf = (kind: string, name: string, uid: string) => ({ apiVersion, kind, name, uid })
const ending = 'the claim root-web-0 is being deleted; the VM web-0 gets a new one'

test('a claim keeps its other owners, however many they are', async () => {
  const server = await startFakeApiServer()
  const kube = createKubeClient({ access: server.access, userAgent: 'test' })
  const labels = { 'virtset.io/group': 'web' }
  const others = Array.from({ length: 100 }, (_, index) => ownerOf('Other', 'x', `x-${index}`))
  const metadata = { namespace: 'default', name: 'root-web-0', labels, ownerReferences: others }
  server.put(claims, { metadata, spec: {} })
  await bindClaims(kube, group, vm)
  const own = ownerOf('VirtualMachine', 'web-0', vm.metadata.uid)
  expect(server.find(claims, 'default', 'root-web-0')?.metadata['ownerReferences']).toEqual([...others, own])
  await kube.close()
  await server.close()
})

test.each<[string, object, string, boolean]>([
  ['has no owner', {}, 'used', true],
  ['is of the group', { ownerReferences: [ownerOf('VirtualMachineGroup', 'web', 'new')] }, 'used', true],
  ['is of an object of another name', { ownerReferences: [ownerOf('VirtualMachineGroup', 'x', 'x')] }, 'used', true],
  ['is of an earlier group', { ownerReferences: [ownerOf('VirtualMachineGroup', 'web', 'old')] }, ending, false],
  ['is of a VM that was scaled in', { ownerReferences: [ownerOf('VirtualMachine', 'web-0', 'x')] }, ending, false],
  ['is being deleted', { deletionTimestamp: '2030-01-01T00:00:00Z', finalizers: ['f'] }, ending, false],
])('a claim that %s', async (_, metadata, outcome, isBound) => {
  const server = await startFakeApiServer()
  const kube = createKubeClient({ access: server.access, userAgent: 'test' })
  const labels = { 'virtset.io/group': 'web' }
  server.put(claims, { metadata: { namespace: 'default', name: 'root-web-0', labels, ...metadata }, spec: {} })
  const created = createClaims(kube, group, 'web-0', { isOver: () => false }).then(
    () => 'used',
    (error: Error) => error.message,
  )
  expect(await created).toBe(outcome)
  await bindClaims(kube, group, vm)
  expect(server.requests.some(({ method }) => method === 'PATCH')).toBe(isBound)
  await kube.close()
  await server.close()
})

test('claims are created until the deadline', async () => {
  const server = await startFakeApiServer()
  const kube = createKubeClient({ access: server.access, userAgent: 'test' })
  const claimTemplates = ['a', 'b', 'c'].map((name) => ({ ...group.spec.claimTemplates![0]!, name }))
  const of = { ...group, spec: { ...group.spec, claimTemplates } }
  let left = 2
  const deadline = { isOver: () => left-- === 0 }
  const outcomes = [await createClaims(kube, of, 'web-0', deadline), server.objects(claims).length]
  outcomes.push(await createClaims(kube, of, 'web-0', deadline), server.objects(claims).length)
  expect(outcomes).toEqual([false, 2, true, 3])
  await kube.close()
  await server.close()
})
