import { isDeepStrictEqual } from 'node:util'
import * as fc from 'fast-check'
import { afterEach, describe, expect, test } from 'vitest'
import type { VirtualMachineGroup } from '../api/group.ts'
import type { PresetSpec } from '../api/preset.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { completeWith } from '../inventory/complete.ts'
import { emptyInventory } from '../inventory/inventory.ts'
import { createEventRecorder } from '../runtime/events.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { startReflector } from '../runtime/reflector.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { creationsOfPasses } from '../test/creations-of-passes.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import type { FakeApiServer, FakeRequest } from '../test/fake-apiserver.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { candidatesOf, preset } from '../test/preset.ts'
import { storedVm } from '../test/stored-vm.ts'
import { until } from '../test/until.ts'
import { startGroupController } from './group-controller.ts'

const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
const groups = '/apis/virtset.io/v1alpha1/virtualmachinegroups'
const log = createLogger({ process: 'test', level: 'silent' })
const labels = { app: 'web' }

const opened: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of opened.splice(0).reverse()) await close()
})

const spec = (replicas: number) => ({
  replicas,
  selector: { matchLabels: labels },
  template: { metadata: { labels }, spec: JSON.parse(JSON.stringify(storedVm().spec)) },
})

async function setUp(replicas: number) {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  opened.push(() => server.close())
  server.put(groups, { metadata: { namespace: 'default', name: 'web', generation: 1 }, spec: spec(replicas) })
  let most = 0
  const watchMost = () => {
    most = Math.max(most, server.objects(vms).length)
  }
  /** Checks the number of VMs before each response. */
  const faults: { of: FakeApiServer['fault'] } = { of: undefined }
  server.fault = (request) => {
    watchMost()
    return faults.of?.(request)
  }
  const start = () => {
    const kube = createKubeClient({ access: server.access, userAgent: 'virtset-controller', clock })
    const events = createEventRecorder({ kube, log, component: 'c', instance: 'c0', clock })
    const reflector = startReflector({ kube, resource: virtualMachines, log, clock })
    const controller = startGroupController({
      kube,
      vms: reflector,
      events,
      log,
      isLeader: () => true,
      clock,
      random: () => 0,
    })
    controller.lead().catch(() => {})
    const stop = async () => {
      await controller.stop()
      await reflector.stop()
      await events.stop()
      await kube.close()
    }
    opened.push(stop)
    return { stop, controller, cache: reflector.store }
  }
  const scale = (to: number) => {
    const group = server.find(groups, 'default', 'web')
    if (group) server.put(groups, { ...group, spec: spec(to) })
  }
  const names = () => server.objects(vms).map(({ metadata }) => metadata.name)
  const reaches = (count: number) =>
    until(
      () => server.objects(vms).length === count,
      () => clock.advance(100),
      { describe: () => `${server.objects(vms).length} VMs, not ${count}` },
    )
  return { clock, server, faults, start, scale, names, reaches, most: () => most }
}

const status = (server: FakeApiServer) =>
  (server.find(groups, 'default', 'web') as unknown as VirtualMachineGroup | undefined)?.status
const writes = (server: FakeApiServer, path = vms) =>
  server.requests.filter(
    ({ method, path: at }) =>
      method !== 'GET' && at.startsWith(path.replace('/virtual', '/namespaces/default/virtual')),
  )
const isCreation = ({ method, path }: FakeRequest) => method === 'POST' && path.endsWith('/virtualmachines')
const change = (server: FakeApiServer, name: string, over: object, metadata: object = {}) => {
  const found = server.find(vms, 'default', name)
  if (found) server.put(vms, { ...found, ...over, metadata: { ...found.metadata, ...metadata } })
}

describe('a group', () => {
  test('is filled, emptied and filled again, with one write per VM each time', async () => {
    const { server, start, scale, reaches, most } = await setUp(20)
    start()
    await reaches(20)
    expect(writes(server).length).toBe(20)
    expect((server.objects(vms)[0] as unknown as VirtualMachine).metadata).toMatchObject({
      generateName: 'web-',
      labels,
      annotations: { 'virtset.io/template-revision': expect.any(String) },
      ownerReferences: [{ kind: 'VirtualMachineGroup', name: 'web', controller: true, blockOwnerDeletion: true }],
    })
    scale(0)
    await reaches(0)
    expect(writes(server).length).toBe(40)
    scale(20)
    await reaches(20)
    expect(writes(server).length).toBe(60)
    expect(most()).toBe(20)
  })

  test.each<[string, object]>([
    ['is paused', { paused: true }],
    ['has claims', { claimTemplates: [{ name: 'data', spec: { resources: { requests: { storage: '1Gi' } } } }] }],
  ])('that %s makes no pass for VMs that nothing controls', async (_, over) => {
    const { clock, server, start } = await setUp(0)
    server.put(groups, { ...server.find(groups, 'default', 'web')!, spec: { ...spec(0), ...over } })
    const { controller, cache } = start()
    await until(
      () => status(server) !== undefined,
      () => clock.advance(100),
    )
    await until(
      () => controller.statistics()?.working === 0,
      () => clock.advance(1000),
    )
    const before = controller.statistics()?.done
    server.put(vms, { metadata: { namespace: 'default', name: 'free', labels }, spec: {} })
    change(server, 'free', {}, { labels: { ...labels, other: 'label' } })
    await until(() => cache.get('default/free')?.metadata.labels?.['other'] === 'label')
    await clock.advance(1000)
    expect(controller.statistics()).toMatchObject({ done: before, waiting: 0, delayed: 0 })
  })

  test('starts slowly: after one and two come four, and none after a refusal', async () => {
    const { faults, server, start, reaches } = await setUp(20)
    let refusedFrom = Infinity
    faults.of = (request) => {
      if (!isCreation(request)) return undefined
      const count = server.requests.filter(isCreation).length
      return count > refusedFrom
        ? { status: 403, body: { kind: 'Status', code: 403, reason: 'Forbidden', message: 'exceeded quota' } }
        : undefined
    }
    refusedFrom = 3
    start()
    await reaches(3)
    await until(() => status(server)?.conditions?.length === 1)
    // The batch of four was refused as one; the next try is one VM, a second later.
    expect(server.requests.filter(isCreation).length).toBe(7)
    expect(status(server)?.conditions).toMatchObject([
      { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate', message: 'exceeded quota' },
    ])
  })

  test('backs off after refusals, and continues when its VMs are accepted', async () => {
    const { faults, clock, server, start, reaches } = await setUp(2)
    const refusal = {
      kind: 'Status',
      code: 422,
      reason: 'Invalid',
      message: 'no',
      details: { causes: [{ field: 'spec.domain.memory', message: 'Required value' }] },
    }
    faults.of = (request) => (isCreation(request) ? { status: 422, body: refusal } : undefined)
    start()
    await until(
      () => status(server)?.conditions?.[0]?.message === 'spec.domain.memory: Required value',
      () => clock.advance(10),
    )
    for (let second = 0; second < 60; second++) await clock.advance(1000)
    await until(
      () => server.requests.filter(isCreation).length >= 5,
      () => clock.advance(1000),
    )
    expect(server.requests.filter(isCreation).length).toBeLessThan(9)
    faults.of = undefined
    await reaches(2)
    await until(
      () => status(server)?.conditions === undefined,
      () => clock.advance(1000),
    )
  })

  test('creates no VM twice after a request without a response', async () => {
    const { faults, server, start, reaches, clock, most } = await setUp(5)
    let broken = 0
    faults.of = (request) => (isCreation(request) && broken++ < 3 ? 'reset-after' : undefined)
    start()
    await reaches(5)
    for (let turn = 0; turn < 20; turn++) await clock.advance(1000)
    expect([server.objects(vms).length, most()]).toEqual([5, 5])
  })

  test('creates no surplus VM while its watch is silent', async () => {
    const { faults, server, start, scale, reaches, clock, most } = await setUp(3)
    start()
    await reaches(3)
    // Watches of VMs stay open and send nothing; those of groups continue.
    faults.of = (request) => (request.query.get('watch') === 'true' && request.path === vms ? 'hang' : undefined)
    server.breakWatches('end')
    await clock.advance(5000)
    scale(6)
    await until(
      () => server.objects(vms).length === 6,
      () => clock.advance(1000),
    )
    scale(7)
    await until(
      () => server.objects(vms).length === 7,
      () => clock.advance(1000),
    )
    for (let turn = 0; turn < 20; turn++) await clock.advance(1000)
    expect([server.objects(vms).length, most() <= 7]).toEqual([7, true])
  })

  test('loses no VM to a controller whose cache is older than the group', async () => {
    const { faults, server, start, scale, reaches, clock } = await setUp(5)
    start()
    await reaches(5)
    const path = '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachinegroups/web'
    const group = server.find(groups, 'default', 'web')!
    const newer = { ...group, metadata: { ...group.metadata, generation: 2 } }
    faults.of = ({ method, path: of }) => (method === 'GET' && of === path ? { status: 200, body: newer } : undefined)
    const reads = () => server.requests.filter(({ method, path: of }) => method === 'GET' && of === path).length
    const before = reads()
    scale(3)
    await until(
      () => reads() > before,
      () => clock.advance(100),
    )
    for (let turn = 0; turn < 20; turn++) await clock.advance(1000)
    expect(server.objects(vms)).toHaveLength(5)
    faults.of = undefined
    change(server, server.objects(vms)[0]?.metadata.name ?? '', {}, { labels: { ...labels, other: 'label' } })
    await reaches(3)
  })

  test('whose controller is killed reaches the requested number, and never exceeds it', async () => {
    const { server, start, reaches, clock, most } = await setUp(30)
    const { stop } = start()
    await until(
      () => server.objects(vms).length > 7,
      () => clock.advance(1),
    )
    await stop()
    opened.splice(opened.indexOf(stop), 1)
    start()
    await reaches(30)
    for (let turn = 0; turn < 10; turn++) await clock.advance(1000)
    expect([server.objects(vms).length, most()]).toEqual([30, 30])
  })

  test('that is new costs no read of the VMs that it selects, however often it changes', async () => {
    const { server, start, scale, reaches } = await setUp(0)
    const owner = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineGroup', controller: true }
    for (let count = 0; count < 60; count++) {
      const ownerReferences = [{ ...owner, name: 'other', uid: 'other' }]
      server.put(vms, { metadata: { namespace: 'default', name: `other-${count}`, labels, ownerReferences }, spec: {} })
    }
    const reads = () => server.requests.filter(({ method, query }) => method === 'GET' && query.has('labelSelector'))
    const readsOfVms = () => reads().filter(({ path }) => path.endsWith('/virtualmachines')).length
    const { stop } = start()
    await until(() => status(server) !== undefined)
    scale(1)
    await reaches(61)
    scale(2)
    await reaches(62)
    expect(readsOfVms()).toBe(0)
    // The next leader has not written the first status: it reads them, in three pages, once.
    await stop()
    opened.splice(opened.indexOf(stop), 1)
    start()
    scale(3)
    await reaches(63)
    expect(readsOfVms()).toBe(3)
    scale(4)
    await reaches(64)
    expect(readsOfVms()).toBe(3)
  })

  test('that is refused a budget after its first status costs no read of the VMs that it selects', async () => {
    const { faults, server, start, scale, reaches } = await setUp(0)
    const { metadata } = server.find(groups, 'default', 'web')!
    server.put(groups, { metadata, spec: { ...spec(0), minAvailable: 1 } })
    faults.of = ({ path }) => (path.includes('poddisruptionbudgets/') ? { status: 403 } : undefined)
    start()
    await until(() => server.requests.some(({ path }) => path.endsWith('poddisruptionbudgets/web')))
    scale(1)
    await reaches(1)
    expect(
      server.requests.filter(({ path, query }) => path.endsWith('/default/virtualmachines') && query.has('limit')),
    ).toEqual([])
  })

  test('with claims creates those of a VM before it, and lets them be deleted with one that is scaled in', async () => {
    const { server, start, reaches, clock } = await setUp(0)
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    const scaleTo = (replicas: number) => {
      const found = server.find(groups, 'default', 'web')!
      const persistentVolumeClaimRetentionPolicy = { whenScaled: 'Delete', whenDeleted: 'Delete' }
      server.put(groups, {
        ...found,
        spec: { ...spec(replicas), claimTemplates, persistentVolumeClaimRetentionPolicy },
      })
    }
    const claimOf = (name: string) => server.find('/api/v1/persistentvolumeclaims', 'default', name)
    const ownersOf = (name: string) => claimOf(name)?.metadata['ownerReferences']
    start()
    scaleTo(2)
    await reaches(2)
    expect(server.objects(vms).map(({ metadata, ...vm }) => [metadata.name, vm['spec']])).toMatchObject([
      ['web-0', { volumes: [{ name: 'root', persistentVolumeClaim: { claimName: 'root-web-0', capacity: '1Gi' } }] }],
      ['web-1', { volumes: [{ name: 'root', persistentVolumeClaim: { claimName: 'root-web-1', capacity: '1Gi' } }] }],
    ])
    const ofGroup = [{ kind: 'VirtualMachineGroup', name: 'web' }]
    expect([ownersOf('root-web-0'), ownersOf('root-web-1')]).toMatchObject([ofGroup, ofGroup])
    const { uid } = server.find(vms, 'default', 'web-1')!.metadata
    // A claim of a user, or of another group, is used but never deleted.
    server.put('/api/v1/persistentvolumeclaims', { metadata: { namespace: 'default', name: 'root-web-2' } })
    scaleTo(3)
    await reaches(3)
    scaleTo(1)
    await reaches(1)
    const isBound = () => JSON.stringify(ownersOf('root-web-1')).includes('"VirtualMachine"')
    await until(isBound, () => clock.advance(100))
    expect(ownersOf('root-web-1')).toEqual([
      { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', name: 'web-1', uid },
    ])
    expect(ownersOf('root-web-0')).toMatchObject(ofGroup)
    expect(ownersOf('root-web-2')).toBeUndefined()
    // The garbage collector has not deleted the claim yet.
    scaleTo(2)
    const refusal = () => status(server)?.conditions?.find(({ type }) => type === 'ReplicaFailure')?.message
    await until(
      () => refusal() !== undefined,
      () => clock.advance(100),
    )
    expect(refusal()).toBe('the claim root-web-1 is being deleted; the VM web-1 gets a new one')
    server.remove('/api/v1/persistentvolumeclaims', 'default', 'root-web-1')
    await reaches(2)
    expect(ownersOf('root-web-1')).toMatchObject(ofGroup)
  })

  test('with claims repeats no creation of a number that is not missing any more', async () => {
    const { faults, server, start, reaches, names, clock } = await setUp(0)
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    const scaleTo = (replicas: number) => {
      const found = server.find(groups, 'default', 'web')!
      server.put(groups, { ...found, spec: { ...spec(replicas), claimTemplates } })
    }
    let resets = 0
    faults.of = (request) => {
      if (!isCreation(request) || (request.body as VirtualMachine).metadata.name !== 'web-2') return undefined
      resets++
      return 'reset'
    }
    start()
    scaleTo(3)
    await until(
      () => resets > 0 && server.objects(vms).length === 2,
      () => clock.advance(100),
    )
    scaleTo(2)
    server.remove(vms, 'default', 'web-0')
    await reaches(2)
    expect(new Set(names())).toEqual(new Set(['web-0', 'web-1']))
  })

  test.each<[string, object, readonly number[]]>([
    ['VMs', {}, [3, 2]],
    [
      'claims',
      {
        claimTemplates: ['a', 'b', 'c'].map((name) => ({
          name,
          spec: { resources: { requests: { storage: '1Gi' } } },
        })),
      },
      Array.from({ length: 10 }, () => 2),
    ],
  ])('leaves slow %s to the next pass, and creates none twice', async (_, over, expected) => {
    const { faults, server, start, clock, most } = await setUp(0)
    server.put(groups, { ...server.find(groups, 'default', 'web')!, spec: { ...spec(5), ...over } })
    const isSlow = ({ method, path }: FakeRequest) => method === 'POST' && !path.endsWith('/events')
    faults.of = (request) => (isSlow(request) ? { heldUntil: clock.advance(1000) } : undefined)
    start()
    // The clock moves only with creations: no pass waits for it.
    await until(() => status(server)?.replicas === 5)
    const isPass = ({ method, path }: FakeRequest) => method === 'GET' && path.endsWith('/virtualmachinegroups/web')
    const requests = server.requests.filter((request) => !request.path.endsWith('/events'))
    expect(creationsOfPasses({ requests }, isPass, '')).toEqual(expected)
    const created = requests.filter(isSlow).map(({ path, body }) => `${path} ${(body as VirtualMachine).metadata.name}`)
    expect([new Set(created).size, most()]).toEqual([created.length, 5])
  })

  test.each<[string, object, string]>([
    [
      'an orphan',
      {},
      'the VM web-0 exists and has no owner; a group with claimTemplates adopts no VM: delete that VM, and the group creates its own, with the claims of this number',
    ],
    [
      'a VM of another owner',
      {
        ownerReferences: [
          { apiVersion: 'virtset.io/v1', kind: 'VirtualMachineConfig', name: 'web-0', uid: 'c', controller: true },
        ],
      },
      'the VM web-0 exists and belongs to VirtualMachineConfig web-0; a group with claimTemplates adopts no VM: delete that VM, and the group creates its own, with the claims of this number',
    ],
    [
      'a VM that is being deleted',
      { deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['virtset.io/vm'] },
      'the VM web-0 exists and has no owner; it is being deleted, and the group creates its own when it is gone',
    ],
  ])('with claims reports %s that has the name of one of its VMs', async (_, over, expected) => {
    const { server, start, clock } = await setUp(0)
    const metadata = { namespace: 'default', name: 'web-0', labels, ...over }
    server.put(vms, { ...JSON.parse(JSON.stringify(storedVm())), metadata })
    const found = server.find(groups, 'default', 'web')!
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    server.put(groups, { ...found, spec: { ...spec(1), claimTemplates } })
    start()
    const refusal = () => status(server)?.conditions?.find(({ type }) => type === 'ReplicaFailure')?.message
    await until(
      () => refusal() !== undefined,
      () => clock.advance(100),
    )
    expect(refusal()).toBe(expected)
  })

  test('maintains the budget that it requests, and no other of its name', async () => {
    const { server, start, reaches, clock } = await setUp(2)
    const budgets = '/apis/policy/v1/poddisruptionbudgets'
    const group = server.find(groups, 'default', 'web')!
    const request = (minAvailable?: number) => {
      const { metadata } = server.find(groups, 'default', 'web')!
      server.put(groups, { metadata, spec: { ...spec(2), ...(minAvailable === undefined ? {} : { minAvailable }) } })
    }
    const found = () => server.find(budgets, 'default', 'web')
    request(1)
    start()
    await reaches(2)
    await until(() => found() !== undefined)
    expect(found()).toMatchObject({
      metadata: { ownerReferences: [{ uid: group.metadata.uid, controller: true }] },
      spec: { minAvailable: 1, selector: { matchExpressions: [{ key: 'virtset.io/vm-uid', operator: 'Exists' }] } },
    })
    request(2)
    await until(() => JSON.stringify(found()).includes('"minAvailable":2'))
    request()
    await until(() => found() === undefined)
    server.put(budgets, { metadata: { namespace: 'default', name: 'web' }, spec: { minAvailable: 9 } })
    request(1)
    const events = () => server.objects('/api/v1/events').map(({ reason }) => reason)
    await until(
      () => events().includes('BudgetNameTaken'),
      () => clock.advance(100),
    )
    expect(found()?.['spec']).toEqual({ minAvailable: 9 })
  })

  test.each([
    ['of another namespace', { namespace: 'other', name: 'web' }],
    ['of another name', { namespace: 'default', name: 'abc' }],
  ])('does not take a budget %s, which names it as its owner, for its own', async (_, place) => {
    const { server, start, reaches, clock } = await setUp(1)
    const budgets = '/apis/policy/v1/poddisruptionbudgets'
    const { metadata } = server.find(groups, 'default', 'web')!
    server.put(groups, { metadata, spec: { ...spec(1), minAvailable: 1 } })
    const { stop } = start()
    await reaches(1)
    const found = () => server.find(budgets, 'default', 'web')
    await until(() => found() !== undefined)
    const own = found()!
    await stop()
    server.remove(budgets, 'default', 'web')
    const { labels: ofOwn, ownerReferences } = own.metadata as {
      labels: Record<string, string>
      ownerReferences: object[]
    }
    server.put(budgets, { ...own, metadata: { ...place, labels: ofOwn, ownerReferences } })
    start()
    await until(
      () => found() !== undefined,
      () => clock.advance(100),
    )
    expect(found()?.['spec']).toEqual(own['spec'])
    expect(server.find(budgets, place.namespace, place.name)).toBeDefined()
  })

  test('creates its VMs even if its budget is refused', async () => {
    const { server, start, reaches } = await setUp(2)
    const { metadata } = server.find(groups, 'default', 'web')!
    server.put(groups, { metadata, spec: { ...spec(2), minAvailable: 1 } })
    server.fault = ({ path }) => (path.includes('poddisruptionbudgets/') ? { status: 403 } : undefined)
    start()
    await reaches(2)
    await until(() => server.requests.some(({ path }) => path.endsWith('poddisruptionbudgets/web')))
    expect(server.find('/apis/policy/v1/poddisruptionbudgets', 'default', 'web')).toBeUndefined()
  })

  test('counts, reports and deletes finished VMs', async () => {
    const { server, start, reaches, names, clock } = await setUp(2)
    start()
    await reaches(2)
    const [first = '', second = ''] = names()
    change(server, first, { status: { phase: 'Succeeded' } })
    change(server, second, { status: { phase: 'Failed', reason: 'PodLost', message: 'the pod is gone' } })
    await until(
      () => !names().includes(first) && !names().includes(second),
      () => clock.advance(100),
    )
    await reaches(2)
    await until(
      () => status(server)?.failed === 1 && status(server)?.countedUids === undefined && status(server)?.replicas === 2,
      () => clock.advance(100),
    )
    expect(status(server)).toMatchObject({ succeeded: 1, failed: 1, replicas: 2 })
    const recorded = server
      .objects('/api/v1/events')
      .map(({ reason, message }) => `${String(reason)} ${String(message)}`)
    expect(recorded).toContain(`Failed VM ${second} ended: PodLost: the pod is gone`)
  })

  test('keeps its VMs when a VM of another namespace claims to be one of them', async () => {
    const { server, start, reaches, names, clock, scale } = await setUp(1)
    start()
    await reaches(1)
    const uid = server.find(groups, 'default', 'web')?.metadata.uid
    const owner = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineGroup', name: 'web', uid, controller: true }
    const forged = [
      { namespace: 'elsewhere', ownerReferences: [owner] },
      { namespace: 'default', ownerReferences: [{ ...owner, apiVersion: 'v1', kind: 'ConfigMap' }] },
    ]
    for (const metadata of forged) {
      server.put(vms, { metadata: { ...metadata, name: 'forged', labels, creationTimestamp: '2020-01-01T00:00:00Z' } })
    }
    scale(2)
    await reaches(4)
    await until(
      () => status(server)?.replicas === 2,
      () => clock.advance(100),
    )
    expect(names()).toHaveLength(4)
  })

  test('adopts more orphans than in one pass', async () => {
    const { server, start, clock } = await setUp(150)
    for (let count = 0; count < 150; count++) {
      server.put(vms, { metadata: { namespace: 'default', name: `orphan-${count}`, labels }, spec: {} })
    }
    start()
    await until(
      () => status(server)?.replicas === 150,
      () => clock.advance(100),
    )
    expect(server.objects(vms)).toHaveLength(150)
    expect(server.objects(vms).every(({ metadata }) => JSON.stringify(metadata).includes('"name":"web"'))).toBe(true)
    expect(writes(server)).toHaveLength(150)
  })

  test('whose adoption of a VM is refused adopts the others, has a status, and is scaled, without that VM', async () => {
    const { faults, server, start, scale, clock } = await setUp(3)
    for (const name of ['refused', 'b', 'c']) {
      server.put(vms, { metadata: { namespace: 'default', name, labels }, spec: {} })
    }
    let isRefused = true
    const refusal = { status: 500, body: { kind: 'Status', code: 500, message: 'refused by a webhook' } }
    const isPatch = ({ method, path }: FakeRequest) => method === 'PATCH' && path.endsWith('/refused')
    faults.of = (request) => (isRefused && isPatch(request) ? refusal : undefined)
    start()
    const owned = () =>
      server
        .objects(vms)
        .filter(({ metadata }) => metadata['ownerReferences'] !== undefined)
        .map(({ metadata }) => metadata.name)
    await until(() => owned().length === 2 && status(server)?.replicas === 3)
    expect(owned()).toEqual(['b', 'c'])
    scale(5)
    await until(
      () => owned().length === 4,
      () => clock.advance(100),
    )
    scale(0)
    await until(
      () => owned().length === 0,
      () => clock.advance(100),
    )
    for (let turn = 0; turn < 20; turn++) await clock.advance(1000)
    expect(server.objects(vms).map(({ metadata }) => metadata.name)).toEqual(['refused'])
    scale(1)
    isRefused = false
    await until(
      () => owned().length === 1,
      () => clock.advance(1000),
    )
    expect(owned()).toEqual(['refused'])
  })

  test('adopts a VM behind many that it cannot adopt, does its other work, and tries these ever more rarely', async () => {
    const { faults, server, start, scale, reaches, clock } = await setUp(3)
    start()
    await reaches(3)
    let tries = 0
    faults.of = ({ method, path }) => {
      if (method !== 'PATCH' || !path.includes('/big-')) return undefined
      tries++
      return { status: 500, body: { kind: 'Status', code: 500, message: 'etcdserver: request is too large' } }
    }
    const many = Array.from({ length: 70 }, (_, index) => `big-${index}`)
    for (const name of [...many, 'small']) {
      server.put(vms, { metadata: { namespace: 'default', name, labels }, spec: {} })
    }
    scale(80)
    await reaches(80)
    expect(server.find(vms, 'default', 'small')?.metadata['ownerReferences']).toHaveLength(1)
    for (let turn = 0; turn < 30; turn++) await clock.advance(1000)
    expect(tries).toBeLessThanOrEqual(70 * 6)
    expect(status(server)?.replicas).toBe(80)
  })

  test.each([
    ['is deleted', (server: FakeApiServer) => server.remove(vms, 'default', 'orphan')],
    ['ends', (server: FakeApiServer) => change(server, 'orphan', { status: { phase: 'Succeeded' } })],
    ['gets other labels', (server: FakeApiServer) => change(server, 'orphan', {}, { labels: { app: 'other' } })],
  ])('creates another VM at once when one that it could not adopt %s', async (_, act) => {
    const { faults, server, start, clock } = await setUp(1)
    server.put(vms, { metadata: { namespace: 'default', name: 'orphan', labels }, spec: {} })
    let tries = 0
    faults.of = ({ method, path }) => {
      if (method !== 'PATCH' || !path.endsWith('/orphan')) return undefined
      tries++
      return { status: 403, body: { kind: 'Status', code: 403, reason: 'Forbidden', message: 'no' } }
    }
    start()
    await until(
      () => tries === 7,
      () => clock.advance(1000),
    )
    const beforeMs = clock.monotonic()
    act(server)
    const own = () => server.objects(vms).filter(({ metadata }) => metadata.name?.startsWith('web-'))
    await until(
      () => own().length === 1,
      () => clock.advance(100),
    )
    expect(clock.monotonic() - beforeMs).toBeLessThan(5000)
  })

  test('tries again each second to adopt a VM that changes meanwhile', async () => {
    const { faults, server, start, clock } = await setUp(1)
    server.put(vms, { metadata: { namespace: 'default', name: 'orphan', labels }, spec: {} })
    let tries = 0
    faults.of = ({ method, path }) => {
      if (method !== 'PATCH' || !path.endsWith('/orphan')) return undefined
      tries++
      return { status: 409, body: { kind: 'Status', code: 409, reason: 'Conflict', message: 'no' } }
    }
    start()
    await until(() => tries === 1)
    await until(
      () => tries === 8,
      () => clock.advance(500),
    )
    expect(clock.monotonic()).toBeLessThan(20_000)
  })

  test('leaves slow adoptions to the next pass', async () => {
    const { faults, server, start, clock } = await setUp(6)
    for (let count = 0; count < 6; count++) {
      server.put(vms, { metadata: { namespace: 'default', name: `orphan-${count}`, labels }, spec: {} })
    }
    const isSlow = ({ method, path }: FakeRequest) => method === 'PATCH' && path.includes('/orphan-')
    faults.of = (request) => (isSlow(request) ? { heldUntil: clock.advance(1000) } : undefined)
    start()
    const owned = () => server.objects(vms).filter(({ metadata }) => metadata['ownerReferences'] !== undefined)
    await until(
      () => owned().length === 6,
      () => clock.advance(20),
    )
    const isPass = ({ method, path }: FakeRequest) => method === 'GET' && path.endsWith('/virtualmachinegroups/web')
    const [, ...passes] = server.requests
      .map((request) => (isPass(request) ? ';' : isSlow(request) ? 'x' : ''))
      .join('')
      .split(';')
    expect(passes.map((pass) => pass.length <= 3)).toEqual(passes.map(() => true))
    expect(passes.filter((pass) => pass.length > 0).length).toBeGreaterThan(1)
  })

  test.each([
    ['was changed by another client', 409],
    ['is refused', 403],
  ])('deletes none of its VMs for one whose adoption %s', async (_, code) => {
    const { faults, server, start, reaches, clock } = await setUp(3)
    start()
    await reaches(3)
    const creationTimestamp = '2020-01-01T00:00:00Z'
    server.put(vms, {
      metadata: { namespace: 'default', name: 'orphan', labels, creationTimestamp },
      spec: {},
      status: { phase: 'Running' },
    })
    let tries = 0
    faults.of = ({ method, path }) => {
      if (method !== 'PATCH' || !path.endsWith('/orphan')) return undefined
      tries++
      return { status: code, body: { kind: 'Status', code, reason: 'No', message: 'no' } }
    }
    await until(
      () => tries >= 3,
      () => clock.advance(1000),
    )
    expect(server.objects(vms)).toHaveLength(4)
    expect(server.requests.filter(({ method }) => method === 'DELETE')).toEqual([])
  })

  test.each([
    ['has changed', 409, 'Conflict'],
    ['was not found', 404, 'NotFound'],
  ])('tries again to adopt a VM that %s', async (_, code, reason) => {
    const { faults, server, start, clock } = await setUp(1)
    server.put(vms, { metadata: { namespace: 'default', name: 'orphan', labels }, spec: {} })
    let failed = 0
    faults.of = ({ method, path }) =>
      method === 'PATCH' && path.endsWith('/orphan') && failed++ === 0
        ? { status: code, body: { kind: 'Status', code, reason, message: 'no' } }
        : undefined
    start()
    await until(
      () => server.find(vms, 'default', 'orphan')?.metadata['ownerReferences'] !== undefined,
      () => clock.advance(100),
    )
    expect([failed, server.objects(vms).length]).toEqual([2, 1])
  })

  test('adopts an orphan and releases a VM that no longer matches, by uid', async () => {
    const { server, start, reaches, names, clock } = await setUp(1)
    const orphan = { metadata: { namespace: 'default', name: 'orphan', labels }, spec: {} }
    server.put(vms, orphan)
    start()
    const owners = () => server.find(vms, 'default', 'orphan')?.metadata['ownerReferences']
    await until(
      () => owners() !== undefined,
      () => clock.advance(100),
    )
    expect(owners()).toMatchObject([{ uid: server.find(groups, 'default', 'web')?.metadata.uid }])
    expect(names()).toEqual(['orphan'])
    change(server, 'orphan', {}, { labels: { app: 'other' } })
    await reaches(2)
    expect(owners()).toEqual([])
  })
})

describe('a group with claims that are deleted when it is scaled in', () => {
  const claims = '/api/v1/persistentvolumeclaims'

  /** Three VMs that stay when they are deleted, until they are released. */
  async function setUpClaims(isSilent = false) {
    const { clock, server, faults, start, reaches } = await setUp(0)
    if (isSilent) faults.of = ({ query, path }) => (query.get('watch') === 'true' && path === vms ? 'hang' : undefined)
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    const scale = (replicas: number) => {
      const found = server.find(groups, 'default', 'web')!
      const more = { claimTemplates, persistentVolumeClaimRetentionPolicy: { whenScaled: 'Delete' } }
      const metadata = { ...found.metadata, generation: Number(found.metadata['generation']) + 1 }
      server.put(groups, { ...found, metadata, spec: { ...spec(replicas), ...more } })
    }
    const { stop } = start()
    scale(3)
    await reaches(3)
    for (const name of ['web-0', 'web-1', 'web-2']) change(server, name, {}, { finalizers: ['f'] })
    await until(
      () => status(server)?.replicas === 3,
      () => clock.advance(100),
    )
    const ends = (name: string) => {
      change(server, name, {}, { deletionTimestamp: '2030-01-01T00:00:00Z', deletionGracePeriodSeconds: 0 })
    }
    /** The owners of the claims of all numbers. */
    const owners = () =>
      server
        .objects(claims)
        .map(({ metadata }) => ((metadata['ownerReferences'] ?? []) as { name: string }[]).map(({ name }) => name))
    const isEnding = (name: string) => server.find(vms, 'default', name)?.metadata.deletionTimestamp !== undefined
    const settle = async () => {
      for (let turn = 0; turn < 20; turn++) await clock.advance(100)
    }
    const newLeader = async () => {
      await stop()
      opened.splice(opened.indexOf(stop), 1)
      start()
    }
    const release = (name: string) => server.remove(vms, 'default', name)
    const waitFor = (condition: () => boolean) => until(condition, () => clock.advance(100))
    return { server, faults, scale, ends, owners, isEnding, settle, newLeader, release, waitFor }
  }

  const isBinding = ({ method, path }: FakeRequest) => method === 'PATCH' && path.endsWith('/root-web-2')

  test.each(['ends', 'is deleted'])(
    'keeps those of a VM that stayed in place of one that ended meanwhile, when it %s later',
    async (how) => {
      const { server, scale, ends, owners, isEnding, settle, release, waitFor } = await setUpClaims()
      ends('web-0')
      scale(2)
      await settle()
      release('web-0')
      await settle()
      expect([isEnding('web-1'), isEnding('web-2')]).toEqual([false, false])
      if (how === 'ends') change(server, 'web-2', { status: { phase: 'Failed' } })
      else ends('web-2')
      await waitFor(() => isEnding('web-2'))
      await settle()
      release('web-2')
      await waitFor(() => server.find(vms, 'default', 'web-0') !== undefined)
      scale(3)
      await waitFor(() => server.find(vms, 'default', 'web-2') !== undefined)
      expect(owners()).toEqual([[], [], []])
    },
  )

  test('lets them be deleted in a later pass if it cannot in that of the deletion', async () => {
    const { faults, scale, owners, isEnding, waitFor } = await setUpClaims()
    let refused = 0
    faults.of = (request) => (isBinding(request) && refused++ < 2 ? { status: 500 } : undefined)
    scale(2)
    await waitFor(() => owners()[2]?.length === 1)
    expect([owners(), refused, isEnding('web-2')]).toEqual([[[], [], ['web-2']], 3, true])
  })

  test('lets them be deleted with a VM whose deletion had no response', async () => {
    const { faults, scale, owners, waitFor } = await setUpClaims()
    let lost = 0
    faults.of = ({ method }) => (method === 'DELETE' && lost++ === 0 ? 'reset-after' : undefined)
    scale(2)
    await waitFor(() => owners()[2]?.length === 1)
    expect(lost).toBe(1)
  })

  test('deletes a VM once, and lets its claims be deleted once, while its watch is silent', async () => {
    const { server, scale, owners, settle, waitFor } = await setUpClaims(true)
    scale(2)
    await waitFor(() => owners()[2]?.length === 1)
    scale(1)
    await waitFor(() => owners()[1]?.length === 1)
    await settle()
    expect(owners()).toEqual([[], ['web-1'], ['web-2']])
    const requests = server.requests.map(({ method, path }) => `${method} ${path.split('/').at(-1)}`)
    const all = [
      'DELETE web-2',
      'GET root-web-2',
      'PATCH root-web-2',
      'DELETE web-1',
      'GET root-web-1',
      'PATCH root-web-1',
    ]
    const count = (line: string) => requests.filter((one) => one === line).length
    // Its creation has read the claim, too.
    expect(all.map(count)).toEqual([1, 2, 1, 1, 2, 1])
  })

  test('keeps those of a VM of which a new leader cannot know why it was deleted', async () => {
    const { faults, scale, owners, isEnding, settle, newLeader, waitFor } = await setUpClaims()
    faults.of = (request) => (isBinding(request) ? { status: 500 } : undefined)
    scale(2)
    await waitFor(() => isEnding('web-2'))
    await newLeader()
    faults.of = undefined
    await settle()
    expect(owners()).toEqual([[], [], []])
  })

  test('keeps those of a VM that it replaces, because it is scaled out again before they are bound', async () => {
    const { server, faults, scale, owners, isEnding, settle, release, waitFor } = await setUpClaims()
    faults.of = (request) => {
      if (request.method === 'DELETE') scale(3)
      return undefined
    }
    scale(2)
    await waitFor(() => isEnding('web-2'))
    faults.of = undefined
    const { uid } = server.find(vms, 'default', 'web-2')!.metadata
    await settle()
    release('web-2')
    await waitFor(() => ![undefined, uid].includes(server.find(vms, 'default', 'web-2')?.metadata.uid))
    expect(owners()).toEqual([[], [], []])
  })

  test('keeps those of a VM that it could not delete, and that stays because another one ends', async () => {
    const { faults, scale, ends, owners, settle, waitFor } = await setUpClaims()
    let isRefused = false
    faults.of = ({ method }) => {
      if (method !== 'DELETE' || isRefused) return undefined
      isRefused = true
      ends('web-0')
      return { status: 500 }
    }
    scale(2)
    await waitFor(() => isRefused)
    await settle()
    ends('web-2')
    await settle()
    expect(owners()).toEqual([[], [], []])
  })
})

describe('a group whose VMs get other labels in admission', () => {
  /** Completes a VM as the webhooks do. */
  const completedWith = (body: unknown, more: Partial<PresetSpec>): unknown => {
    const inventory = { ...emptyInventory(), candidates: candidatesOf(preset('p', more, 'default')) }
    const outcome = completeWith(inventory, body as VirtualMachine, { namespace: 'default', uid: 'u' })
    if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes))
    return outcome.vm
  }
  const enforced: Partial<PresetSpec> = { strength: 'Enforce', metadata: { labels: { app: 'other' } } }
  /** Loses to labels of the user, so the group excludes the label instead. */
  const added: Partial<PresetSpec> = { metadata: { labels: { tier: 'gold' } } }
  const selector = { matchLabels: labels, matchExpressions: [{ key: 'tier', operator: 'DoesNotExist' }] }
  const relabelled = (body: unknown) => {
    const vm = body as VirtualMachine
    return { ...vm, metadata: { ...vm.metadata, labels: { app: 'other' } } }
  }
  const isDryRun = ({ query }: FakeRequest) => query.get('dryRun') === 'All'
  const creations = (server: FakeApiServer) => server.requests.filter(isCreation).filter((one) => !isDryRun(one)).length
  const refusal = (server: FakeApiServer) => status(server)?.conditions?.find(({ type }) => type === 'ReplicaFailure')
  const why = 'VMs of this group get the label app=other, set by preset "default/p", but spec.selector requires app=web'

  test('creates one, deletes it, reports why, and asks before it creates another', async () => {
    const { faults, clock, server, start, reaches, most } = await setUp(3)
    faults.of = (request) => {
      if (isCreation(request)) request.body = completedWith(request.body, enforced)
      return undefined
    }
    start()
    const asked = () => server.requests.filter(isCreation).filter(isDryRun).length
    await until(
      () => asked() >= 5,
      () => clock.advance(1000),
    )
    expect([creations(server), server.objects(vms), most()]).toEqual([1, [], 1])
    expect(refusal(server)).toMatchObject({ status: 'True', reason: 'FailedCreate', message: why })
    const events = () =>
      server.objects('/api/v1/events').map(({ reason, message }) => `${String(reason)} ${String(message)}`)
    await until(
      () => events().includes(`FailedCreate ${why}`),
      () => clock.advance(100),
    )
    const deletion = server.requests.find(
      ({ method, path }) => method === 'DELETE' && path.includes('/virtualmachines/'),
    )
    expect(deletion?.body).toMatchObject({ preconditions: { uid: expect.any(String) } })
    faults.of = undefined
    await reaches(3)
    await until(
      () => status(server)?.conditions === undefined,
      () => clock.advance(1000),
    )
  })

  test('backs off if a dry run does not show it', async () => {
    const { faults, clock, server, start, most } = await setUp(1)
    faults.of = (request) => {
      if (isCreation(request) && !isDryRun(request)) request.body = completedWith(request.body, enforced)
      return undefined
    }
    start()
    await until(
      () => creations(server) >= 4,
      () => clock.advance(1000),
    )
    for (let minute = 0; minute < 10; minute++) await clock.advance(60_000)
    expect([creations(server) < 15, server.objects(vms).length, most()]).toEqual([true, 0, 1])
  })

  test.each<[string, ReturnType<NonNullable<FakeApiServer['fault']>>]>([
    [
      'another webhook does not support dry runs',
      { status: 400, body: { kind: 'Status', code: 400, reason: 'BadRequest', message: 'does not support dry run' } },
    ],
    ['no dry run gets a response', 'reset'],
  ])('creates VMs once it can, even if %s', async (_, fault) => {
    const { faults, clock, server, start, reaches } = await setUp(2)
    let isRefused = true
    const quota = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'exceeded quota' }
    faults.of = (request) => {
      if (!isCreation(request)) return undefined
      if (isDryRun(request)) return fault
      return isRefused ? { status: 403, body: quota } : undefined
    }
    const { stop } = start()
    await until(() => refusal(server) !== undefined)
    await stop()
    opened.splice(opened.indexOf(stop), 1)
    isRefused = false
    // A new leader asks first, since the condition says that VMs were refused.
    start()
    await reaches(2)
    await until(
      () => refusal(server) === undefined,
      () => clock.advance(1000),
    )
    expect([creations(server), server.requests.filter(isDryRun).length > 0]).toEqual([3, true])
  })

  test('creates no other VM before the first is gone', async () => {
    const { faults, clock, server, start, names, reaches } = await setUp(1)
    faults.of = (request) => {
      if (!isCreation(request)) return undefined
      const vm = relabelled(request.body)
      request.body = { ...vm, metadata: { ...vm.metadata, finalizers: ['held'] } }
      return undefined
    }
    start()
    const found = () => server.objects(vms)[0]
    await until(() => found()?.metadata.deletionTimestamp !== undefined)
    await until(
      () => refusal(server) !== undefined,
      () => clock.advance(100),
    )
    faults.of = undefined
    for (let turn = 0; turn < 20; turn++) await clock.advance(1000)
    expect([creations(server), status(server)?.replicas]).toEqual([1, 1])
    expect(found()?.metadata['ownerReferences']).toHaveLength(1)
    server.remove(vms, 'default', names()[0] ?? '')
    await reaches(1)
    expect(found()?.metadata.labels).toEqual(labels)
  })

  test('deletes it later if it cannot be deleted at once, and never releases it', async () => {
    const { faults, clock, server, start, most } = await setUp(1)
    let refused = 0
    faults.of = (request) => {
      if (isCreation(request)) request.body = relabelled(request.body)
      return request.method === 'DELETE' && refused++ < 3 ? { status: 500 } : undefined
    }
    start()
    await until(
      () => refused > 3,
      () => clock.advance(1000),
    )
    expect([
      server.objects(vms).length,
      most(),
      server.requests.filter(({ method, path }) => method === 'PATCH' && path.includes('/virtualmachines/')).length,
    ]).toEqual([0, 1, 0])
  })

  test('deletes what the last leader could not, and asks first if that has reported why', async () => {
    const { faults, clock, server, start, most } = await setUp(1)
    let isCrashing = true
    faults.of = (request) => {
      if (isCreation(request)) request.body = completedWith(request.body, enforced)
      return request.method === 'DELETE' && isCrashing ? 'reset' : undefined
    }
    const { stop } = start()
    await until(() => server.objects(vms).length === 1)
    await stop()
    opened.splice(opened.indexOf(stop), 1)
    isCrashing = false
    const { stop: stopSecond } = start()
    await until(
      () => refusal(server) !== undefined && server.objects(vms).length === 0,
      () => clock.advance(100),
    )
    await stopSecond()
    opened.splice(opened.indexOf(stopSecond), 1)
    const before = creations(server)
    start()
    const asked = server.requests.filter(isDryRun).length
    await until(
      () => server.requests.filter(isDryRun).length > asked + 2,
      () => clock.advance(1000),
    )
    expect([before, creations(server), most(), refusal(server)?.message]).toEqual([1, 1, 1, why])
  })

  test.each<[string, Partial<PresetSpec>, number]>([
    ['are enforced, deletes it', enforced, 0],
    ['can be changed, releases it', added, 1],
  ])('that get them after the webhooks were bypassed, and that %s, and backs off', async (_, more, left) => {
    const { clock, server, start, reaches } = await setUp(0)
    const { metadata } = server.find(groups, 'default', 'web')!
    server.put(groups, { metadata, spec: { ...spec(1), selector } })
    start()
    await reaches(1)
    const [first] = server.objects(vms)
    server.put(vms, completedWith(first, more) as NonNullable<typeof first>)
    const owned = () => server.objects(vms).filter((vm) => JSON.stringify(vm.metadata['ownerReferences']) !== '[]')
    await until(
      () => owned().length === 0 && server.objects(vms).length === left,
      () => clock.advance(100),
    )
    await clock.advance(200)
    expect(creations(server)).toBe(1)
    await reaches(left + 1)
  })

  test('releases a VM that it adopted, which gets them when it is completed', async () => {
    const { clock, server, start, reaches } = await setUp(1)
    const pet = { namespace: 'default', name: 'pet', labels }
    server.put(vms, { ...JSON.parse(JSON.stringify(storedVm())), metadata: pet })
    start()
    const found = () => server.find(vms, 'default', 'pet')
    await until(() => found()?.metadata['ownerReferences'] !== undefined)
    server.put(vms, completedWith(found(), enforced) as NonNullable<ReturnType<typeof found>>)
    await reaches(2)
    await until(
      () => status(server)?.replicas === 1,
      () => clock.advance(100),
    )
    expect(found()?.metadata['ownerReferences']).toEqual([])
  })

  test.each([
    ['the watch', false],
    ['the repeated creation', true],
  ])('deletes and does not release one that it finds by %s after a lost response', async (_, isSilent) => {
    const { faults, clock, server, start } = await setUp(1)
    server.put(groups, { ...server.find(groups, 'default', 'web')!, spec: { ...spec(1), selector } })
    let lost = 0
    faults.of = (request) => {
      if (isSilent && request.query.get('watch') === 'true' && request.path === vms) return 'hang'
      if (!isCreation(request)) return undefined
      request.body = completedWith(request.body, added)
      return isDryRun(request) || lost++ > 0 ? undefined : 'reset-after'
    }
    start()
    await until(
      () => refusal(server) !== undefined && server.objects(vms).length === 0,
      () => clock.advance(1000),
    )
    for (let turn = 0; turn < 20; turn++) await clock.advance(1000)
    const released = server.requests.filter(
      ({ method, path }) => method === 'PATCH' && path.includes('/virtualmachines/'),
    )
    expect([server.objects(vms), released.length]).toEqual([[], 0])
    expect(refusal(server)?.message).toContain('the label tier=gold, set by preset "default/p"')
  })

  test('releases a member whose labels a user changes, even if the response of its creation was lost', async () => {
    const { faults, clock, server, start, names, reaches } = await setUp(1)
    let lost = 0
    faults.of = (request) => (isCreation(request) && lost++ === 0 ? 'reset-after' : undefined)
    start()
    await reaches(1)
    await until(
      () => status(server)?.replicas === 1,
      () => clock.advance(100),
    )
    for (let turn = 0; turn < 10; turn++) await clock.advance(1000)
    const [name = ''] = names()
    change(server, name, {}, { labels: { app: 'other' } })
    await reaches(2)
    expect(server.find(vms, 'default', name)?.metadata['ownerReferences']).toEqual([])
  })

  test.each([
    ['the watch', false],
    ['the repeated creation', true],
  ])('releases one with a pod, whose guest may run, that it finds by %s after a lost response', async (_, isSilent) => {
    const { faults, clock, server, start } = await setUp(1)
    let lost = ''
    faults.of = (request) => {
      if (isSilent && request.query.get('watch') === 'true' && request.path === vms) return 'hang'
      if (!isCreation(request) || lost !== '') return undefined
      const created = request.body as VirtualMachine
      lost = created.metadata.name ?? ''
      // What a user and the controller of VMs have done before the group finds it.
      request.body = { ...created, metadata: { ...created.metadata, labels: {} }, status: { podUID: 'p' } }
      return 'reset-after'
    }
    start()
    const owners = () => server.find(vms, 'default', lost)?.metadata['ownerReferences']
    if (isSilent) {
      await until(
        () => server.requests.filter((request) => isCreation(request)).length > 1,
        () => clock.advance(1000),
      )
      faults.of = undefined
      server.breakWatches('end')
    }
    await until(
      () => lost !== '' && (owners() === undefined || JSON.stringify(owners()) === '[]'),
      () => clock.advance(1000),
    )
    expect(owners()).toEqual([])
  })

  test('releases a member of a former leader whose labels a user has changed, if the name of a new VM finds it', async () => {
    const { faults, clock, server, start } = await setUp(0)
    faults.of = ({ query, path }) => (query.get('watch') === 'true' && path === vms ? 'hang' : undefined)
    start()
    await until(() => status(server) !== undefined)
    const { metadata } = server.find(groups, 'default', 'web')!
    const owner = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachineGroup', name: 'web', uid: metadata.uid }
    server.put(vms, {
      ...JSON.parse(JSON.stringify(storedVm())),
      metadata: {
        namespace: 'default',
        name: 'web-0',
        labels: { app: 'other' },
        ownerReferences: [{ ...owner, controller: true }],
      },
    })
    const claimTemplates = [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }]
    server.put(groups, { metadata, spec: { ...spec(1), claimTemplates } })
    const isDeleted = () => server.requests.some(({ method, path }) => method === 'DELETE' && path.endsWith('/web-0'))
    const found = () => server.find(vms, 'default', 'web-0')
    await until(
      () => isDeleted() || JSON.stringify(found()?.metadata['ownerReferences']) === '[]',
      () => clock.advance(1000),
    )
    expect([isDeleted(), found() === undefined]).toEqual([false, false])
  })

  const step = fc.record({
    admission: fc.constantFrom('foreign', 'foreign', 'not in dry runs', 'by name', 'none'),
    creation: fc.constantFrom('answered', 'answered', 'lost'),
    deletion: fc.constantFrom('accepted', 'accepted', 'refused', 'lost'),
    isRestarted: fc.boolean(),
    replicas: fc.integer({ min: 0, max: 4 }),
  })

  test('has never more VMs than were requested, whatever presets and faults do', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 2, maxLength: 5 }), fc.boolean(), async (steps, isEnforced) => {
        const { faults, clock, server, start } = await setUp(0)
        const scale = (to: number) => {
          const found = server.find(groups, 'default', 'web')!
          server.put(groups, { ...found, spec: { ...spec(to), selector } })
        }
        let admission = 'none'
        let creation = 'answered'
        let deletion = 'accepted'
        faults.of = (request) => {
          if (isCreation(request)) {
            const isForeign =
              admission === 'foreign' ||
              (admission === 'not in dry runs' && !isDryRun(request)) ||
              (admission === 'by name' && /[0-7]$/.test((request.body as VirtualMachine).metadata.name ?? ''))
            request.body = completedWith(request.body, isForeign ? (isEnforced ? enforced : added) : {})
            return creation === 'lost' && !isDryRun(request) ? 'reset-after' : undefined
          }
          if (request.method !== 'DELETE' || deletion === 'accepted') return undefined
          return deletion === 'refused' ? { status: 500 } : 'reset-after'
        }
        let { stop } = start()
        let allowed = 0
        for (const one of steps) {
          admission = one.admission
          creation = one.creation
          deletion = one.deletion
          scale(one.replicas)
          allowed = Math.max(allowed, one.replicas)
          for (let turn = 0; turn < 5; turn++) await clock.advance(500)
          // Another leader cannot know whether a user has added a label that no preset enforces.
          if (one.isRestarted && isEnforced) {
            await stop()
            opened.splice(opened.indexOf(stop), 1)
            stop = start().stop
          }
          for (let turn = 0; turn < 5; turn++) await clock.advance(500)
          const released = server
            .objects(vms)
            .filter(({ metadata }) => JSON.stringify(metadata['ownerReferences']) === '[]')
          expect([server.objects(vms).length <= allowed, released]).toEqual([true, []])
        }
        admission = 'none'
        creation = 'answered'
        deletion = 'accepted'
        const { replicas = 0 } = steps.at(-1) ?? {}
        await until(
          () =>
            server.objects(vms).length === replicas &&
            server.objects(vms).every(({ metadata }) => isDeepStrictEqual(metadata.labels, labels)),
          () => clock.advance(10_000),
        )
        for (const close of opened.splice(0).reverse()) await close()
      }),
      { numRuns: 25 },
    )
  })
})
