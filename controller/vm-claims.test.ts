import { describe, expect, test } from 'vitest'
import type { VirtualMachineGroup } from '../api/group.ts'
import { createKubeClient } from '../runtime/kube.ts'
import type { Persisted } from '../runtime/resource.ts'
import { startFakeApiServer, type FakeRequest } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
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
  const created = createClaims(kube, fakeClock(), group, 'web-0', { isOver: () => false }, new Set()).then(
    () => 'used',
    (error: Error) => error.message,
  )
  expect(await created).toBe(outcome)
  const before = server.requests.length
  await bindClaims(kube, group, vm)
  expect(server.requests.slice(before).some(({ method }) => method === 'PATCH')).toBe(isBound)
  await kube.close()
  await server.close()
})

describe('a claim that a former leader gives to the last VM of this number', () => {
  const labels = { 'virtset.io/group': 'web' }
  const isPatch = ({ method }: FakeRequest) => method === 'PATCH'

  /** `bindClaims` of the former leader, whose first PATCH the API server holds until it is released. */
  async function setUp() {
    const server = await startFakeApiServer()
    const kube = createKubeClient({ access: server.access, userAgent: 'test' })
    server.put(claims, { metadata: { namespace: 'default', name: 'root-web-0', labels }, spec: {} })
    const { promise, resolve } = Promise.withResolvers<void>()
    let patches = 0
    server.fault = (request) => (isPatch(request) && patches++ === 0 ? { heldUntil: promise } : undefined)
    const bound = bindClaims(kube, group, vm)
    await until(() => patches === 1)
    const end = async () => {
      await kube.close()
      await server.close()
    }
    const use = () => createClaims(kube, fakeClock(), group, 'web-0', { isOver: () => false }, new Set())
    const owners = () => server.find(claims, 'default', 'root-web-0')?.metadata['ownerReferences']
    return { server, bound, release: resolve, use, owners, end }
  }

  test('stays if a new VM uses it before that takes effect, even if the former leader takes itself for the leader', async () => {
    const { bound, release, use, owners, end } = await setUp()
    expect(await use()).toBe(true)
    release()
    await bound
    expect(owners()).toBeUndefined()
    await end()
  })

  test('is not used if that takes effect between being read and being written', async () => {
    const { server, bound, release, use, owners, end } = await setUp()
    const { fault } = server
    server.fault = (request) => {
      if (!isPatch(request)) return fault?.(request)
      release()
      return { heldUntil: bound }
    }
    await expect(use()).rejects.toThrow(ending)
    expect(owners()).toEqual([ownerOf('VirtualMachine', 'web-0', vm.metadata.uid)])
    await end()
  })
})

test('a claim that changes while a VM becomes its owner is read again, a few times', async () => {
  const server = await startFakeApiServer()
  const kube = createKubeClient({ access: server.access, userAgent: 'test' })
  const metadata = { namespace: 'default', name: 'root-web-0', labels: { 'virtset.io/group': 'web' } }
  server.put(claims, { metadata, spec: {} })
  let changes = 4
  server.fault = ({ method }) => {
    if (method === 'PATCH' && changes-- > 0) server.put(claims, { metadata, spec: {} })
    return undefined
  }
  await bindClaims(kube, group, vm)
  const own = ownerOf('VirtualMachine', 'web-0', vm.metadata.uid)
  expect(server.find(claims, 'default', 'root-web-0')?.metadata['ownerReferences']).toEqual([own])
  server.put(claims, { metadata: { ...metadata, ownerReferences: [] }, spec: {} })
  changes = Infinity
  await expect(bindClaims(kube, group, vm)).rejects.toThrow('the claim root-web-0 has changed each time')
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
  const kept = new Set<string>()
  const create = () => createClaims(kube, fakeClock(), of, 'web-0', deadline, kept)
  const outcomes = [await create(), server.objects(claims).length]
  outcomes.push(await create(), server.objects(claims).length)
  expect(outcomes).toEqual([false, 2, true, 3])
  // Nobody else can have bound them.
  expect(server.requests.filter(({ method }) => method === 'PATCH')).toEqual([])
  await kube.close()
  await server.close()
})
