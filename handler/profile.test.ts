import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import type { Persisted } from '../runtime/resource.ts'
import { capabilitySetName } from '../api/node-capability-set.ts'
import type { SessionEndpoint } from '../api/session-endpoint.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { startFakeApiServer, type FakeApiServer, type FakeObject } from '../test/fake-apiserver.ts'
import { fakeClock, type FakeClock } from '../test/fake-clock.ts'
import { emulatedCapabilities } from '../test/node-profile.ts'
import { until } from '../test/until.ts'
import { nodeProfile, publishProfile, type Node, type ProfilePublisher } from './profile.ts'

const found = { libvirtVersion: '11.3.0', capabilities: bundledCapabilities }

describe('the profile of a node', () => {
  const node: Persisted<Node> = {
    metadata: {
      name: 'one',
      uid: 'u',
      resourceVersion: '1',
      labels: { zone: 'a', 'cpu-model.virtset.io/EPYC': 'true' },
    },
    spec: {
      taints: [
        { key: 'gpu', value: 'a100', effect: 'NoSchedule' },
        { key: 'node.kubernetes.io/not-ready', effect: 'NoExecute' },
        { key: 'node.cloudprovider.kubernetes.io/uninitialized', value: 'true', effect: 'NoSchedule' },
        { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' },
      ],
    },
  }

  test('has its name, its labels and its permanent taints, and is owned by it', () => {
    expect(nodeProfile(node, found)).toEqual({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'NodeProfile',
      metadata: {
        name: 'one',
        labels: { zone: 'a' },
        ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'one', uid: 'u' }],
      },
      spec: {
        ...found,
        kvm: true,
        taints: [
          { key: 'gpu', value: 'a100', effect: 'NoSchedule' },
          { key: 'node-role.kubernetes.io/control-plane', effect: 'NoSchedule' },
        ],
      },
    })
  })

  test('has the session endpoint of its handler', () => {
    const sessionEndpoint = { address: '10.0.0.1:8444', certificateSha256: 'AA:BB' }
    expect(nodeProfile(node, found, sessionEndpoint).spec.sessionEndpoint).toEqual(sessionEndpoint)
  })

  test('reports that KVM is missing', () => {
    expect(nodeProfile(node, { ...found, capabilities: emulatedCapabilities }).spec.kvm).toBe(false)
  })
})

describe('a handler', () => {
  let api: FakeApiServer
  let kube: KubeClient
  let clock: FakeClock
  let publisher: ProfilePublisher
  const path = '/apis/virtset.io/v1alpha1/nodeprofiles'
  let written: Buffer | undefined
  const write = (profile: object) => {
    written = Buffer.from(JSON.stringify(profile))
  }
  const put = (metadata: Partial<FakeObject['metadata']>) =>
    api.put('/api/v1/nodes', { metadata: { name: 'one', ...metadata } })
  const stored = () => api.find(path, undefined, 'one')
  const writes = () => api.requests.filter((one) => one.method === 'PATCH' && one.path.startsWith(path)).length
  const labelsOfNode = () => api.find('/api/v1/nodes', undefined, 'one')?.metadata.labels ?? {}

  const start = (sessionEndpoint?: SessionEndpoint) =>
    publishProfile({
      kube,
      nodeName: 'one',
      read: () => Promise.resolve(written),
      ...(sessionEndpoint && { sessionEndpoint }),
      log: createLogger({ process: 'test', level: 'silent' }),
      clock,
    })

  beforeEach(async () => {
    written = undefined
    api = await startFakeApiServer()
    kube = createKubeClient({ access: api.access, userAgent: 'virtset-handler' })
    clock = fakeClock()
    publisher = start()
  })

  afterEach(async () => {
    await publisher.stop()
    await kube.close()
    await api.close()
  })

  /** Lets time go by, as often as it takes. */
  const later = (isTrue: () => boolean) =>
    until(async () => {
      await clock.advance(10_000)
      return isTrue()
    })

  test('publishes nothing before libvirt was queried', async () => {
    put({ labels: { zone: 'a' } })
    await publisher.node.synced()
    expect(stored()).toBeUndefined()
    write(found)
    await later(() => stored() !== undefined)
    expect(stored()).toMatchObject({ metadata: { labels: { zone: 'a' } }, spec: { ...found, kvm: true, taints: [] } })
  })

  test('follows the labels of its node, and the capabilities of libvirt', async () => {
    put({ labels: { zone: 'a' } })
    write(found)
    await later(() => stored() !== undefined)
    put({ labels: { zone: 'b' } })
    await until(() => stored()?.metadata.labels?.['zone'] === 'b')
    write({ ...found, capabilities: emulatedCapabilities })
    await later(() => writes() === 3)
    expect(stored()).toMatchObject({ spec: { kvm: false } })
  })

  test('labels its node with what its CPU can do, and repairs the labels', async () => {
    const model = 'cpu-model.virtset.io/Nehalem'
    put({ labels: { zone: 'a', 'cpu-feature.virtset.io/gone': 'true' } })
    write(found)
    await later(() => labelsOfNode()[model] === 'true')
    expect(labelsOfNode()).toMatchObject({ zone: 'a' })
    expect(Object.keys(labelsOfNode())).not.toContain('cpu-feature.virtset.io/gone')
    await later(() => stored() !== undefined)
    expect(stored()?.metadata.labels).toEqual({ zone: 'a' })
    put({ labels: { zone: 'a' } })
    await later(() => labelsOfNode()[model] === 'true')
    write({ ...found, capabilities: emulatedCapabilities })
    await later(() => labelsOfNode()[model] === undefined)
    expect(labelsOfNode()).toEqual({ zone: 'a' })
  })

  test('writes nothing without a change, except to repair a changed profile', async () => {
    put({})
    write(found)
    await later(() => stored() !== undefined)
    for (let passed = 0; passed < 30; passed++) await clock.advance(10_000)
    expect(writes()).toBe(1)
    api.remove(path, undefined, 'one')
    await later(() => stored() !== undefined)
    expect(writes()).toBe(2)
  })

  describe('with a set of its capabilities', () => {
    const sets = '/apis/virtset.io/v1alpha1/nodecapabilitysets'
    const name = capabilitySetName(bundledCapabilities)
    const putSet = (spec: object, named = name) =>
      api.put(sets, { kind: 'NodeCapabilitySet', metadata: { name: named }, spec })
    const { capabilities, ...own } = found
    const whole = { ...own, capabilities, kvm: true, taints: [] }
    const sharing = { ...own, capabilitySetName: name, kvm: true, taints: [] }
    const spec = () => JSON.parse(JSON.stringify(stored()))?.spec

    test.each<[string, (() => void) | undefined, object]>([
      ['names the set', () => putSet({ capabilities }), sharing],
      ['repeats its capabilities without the set', undefined, whole],
      ['repeats them if the set is retired', () => putSet({ capabilities, retired: true }), whole],
      ['names the set if it is no longer retired', () => putSet({ capabilities, retired: false }), sharing],
      ['repeats them if the set has others', () => putSet({ capabilities: emulatedCapabilities }), whole],
      ['repeats them if the set has another name', () => putSet({ capabilities }, 'other'), whole],
      [
        'repeats them if it cannot read the set yet',
        () => (api.fault = ({ path: at }) => (at.startsWith(sets) ? { status: 403, body: {} } : undefined)),
        whole,
      ],
    ])('%s', async (_, prepare, expected) => {
      prepare?.()
      put({})
      write(found)
      await later(() => stored() !== undefined)
      expect(spec()).toEqual(expected)
    })

    test('follows the set within ten minutes', async () => {
      put({})
      write(found)
      await later(() => stored() !== undefined)
      putSet({ capabilities })
      for (let passed = 0; passed < 58; passed++) await clock.advance(10_000)
      expect([spec(), writes()]).toEqual([whole, 1])
      await later(() => writes() === 2)
      expect(spec()).toEqual(sharing)
      api.remove(sets, undefined, name)
      await later(() => writes() === 3)
      expect(spec()).toEqual(whole)
      // It reads the set only when it publishes.
      expect(api.requests.filter((one) => one.path.startsWith(sets)).length).toBe(3)
    })
  })

  describe('before libvirt was queried', () => {
    const before = { address: '10.0.0.1:8444', certificateSha256: 'AA' }
    const now = { address: '10.0.0.2:8444', certificateSha256: 'BB' }
    const { capabilities, ...own } = found
    const whole = { ...own, kvm: true, taints: [], capabilities }
    const sharing = { ...own, kvm: true, taints: [], capabilitySetName: capabilitySetName(bundledCapabilities) }
    const metadata = {
      name: 'one',
      labels: { zone: 'a', of: 'an administrator' },
      ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name: 'one', uid: 'u' }],
    }
    const store = (spec: object, more: object = {}) =>
      api.put(path, {
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'NodeProfile',
        metadata: { ...metadata, ...more },
        spec,
      })
    const content = () => {
      const { labels, ownerReferences } = stored()?.metadata ?? {}
      return { labels, ownerReferences, spec: stored()?.['spec'] }
    }
    const reads = () => api.requests.filter((one) => one.method === 'GET' && one.path === `${path}/one`).length
    const restart = async (sessionEndpoint?: SessionEndpoint) => {
      await publisher.stop()
      publisher = start(sessionEndpoint)
    }

    test.each<[string, object, SessionEndpoint | undefined, object, number]>([
      [
        'replaces the endpoint of the stored profile',
        { ...whole, sessionEndpoint: before },
        now,
        { ...whole, sessionEndpoint: now },
        1,
      ],
      ['adds one to it', whole, now, { ...whole, sessionEndpoint: now }, 1],
      ['removes it if it has no sessions', { ...whole, sessionEndpoint: before }, undefined, whole, 1],
      [
        'replaces it beside the name of a set',
        { ...sharing, sessionEndpoint: before },
        now,
        { ...sharing, sessionEndpoint: now },
        1,
      ],
      ['keeps its own', { ...whole, sessionEndpoint: now }, now, { ...whole, sessionEndpoint: now }, 0],
      ['adds none if it has no sessions', whole, undefined, whole, 0],
    ])('%s, once', async (_, spec, endpoint, expected, count) => {
      store(spec)
      await restart(endpoint)
      put({ uid: 'u' })
      await later(() => reads() > 0)
      for (let passed = 0; passed < 30; passed++) await clock.advance(10_000)
      const { labels, ownerReferences } = metadata
      expect(content()).toEqual({ labels, ownerReferences, spec: expected })
      expect([reads(), writes()]).toEqual([1, count])
    })

    test('reads it again after ten minutes if its role does not allow that yet', async () => {
      store({ ...whole, sessionEndpoint: before })
      api.fault = ({ method }) => (method === 'GET' && reads() === 1 ? { status: 403, body: {} } : undefined)
      await restart(now)
      put({ uid: 'u' })
      await later(() => reads() > 0)
      for (let passed = 0; passed < 58; passed++) await clock.advance(10_000)
      expect([reads(), writes()]).toEqual([1, 0])
      await later(() => writes() === 1)
      expect(content().spec).toEqual({ ...whole, sessionEndpoint: now })
    })

    test('creates no profile', async () => {
      await restart(now)
      put({ uid: 'u' })
      await later(() => reads() > 0)
      await clock.advance(10_000)
      expect([stored(), writes()]).toEqual([undefined, 0])
    })

    test('does not change the profile of an earlier node of its name', async () => {
      store({ ...whole, sessionEndpoint: before })
      await restart(now)
      put({ uid: 'v' })
      await later(() => reads() > 0)
      await clock.advance(10_000)
      expect([content().spec, writes()]).toEqual([{ ...whole, sessionEndpoint: before }, 0])
    })

    test('does not overwrite a change', async () => {
      store({ ...whole, sessionEndpoint: before })
      api.fault = ({ method, path: at }) => {
        if (method === 'PATCH' && at.startsWith(path) && content().labels?.['of'] !== 'another')
          store({ ...whole, sessionEndpoint: before }, { labels: { of: 'another' } })
        return undefined
      }
      await restart(now)
      put({ uid: 'u' })
      await later(() => writes() === 2)
      await until(() => JSON.stringify(content().spec).includes('BB'))
      expect(content()).toMatchObject({ labels: { of: 'another' }, spec: { ...whole, sessionEndpoint: now } })
    })

    test('then publishes its whole profile', async () => {
      store({ ...sharing, sessionEndpoint: before })
      await restart(now)
      put({ uid: 'u' })
      await later(() => writes() === 1)
      write(found)
      await later(() => writes() === 2)
      expect(content()).toMatchObject({ labels: {}, spec: { ...whole, sessionEndpoint: now } })
    })
  })

  test('publishes nothing that is not a profile', async () => {
    put({})
    write({ libvirtVersion: '11.3.0', capabilities: { architecture: 'x86_64' } })
    await publisher.node.synced()
    for (let passed = 0; passed < 30; passed++) await clock.advance(10_000)
    write(found)
    await later(() => stored() !== undefined)
    expect(writes()).toBe(1)
  })
})
