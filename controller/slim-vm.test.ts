import { describe, expect, it } from 'vitest'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import { parserOf } from '../runtime/partial-json.ts'
import type { Persisted } from '../runtime/resource.ts'
import { storedVm } from '../test/stored-vm.ts'
import { cachedVms, vmSlimmer, type CachedVm } from './slim-vm.ts'
import { createStartingVms } from './starting-vms.ts'

const used = (name: string) => new Map([[name, 'r1']])
const startingVms = createStartingVms()
const slimVm = vmSlimmer(({ metadata }) => used(metadata.annotations?.[completedByAnnotation] ?? ''), startingVms)

const read = (vm: object): Persisted<CachedVm> => {
  const found = parserOf(cachedVms.read)(Buffer.from(JSON.stringify(vm)))
  if (!cachedVms.accepts(found)) throw new Error('it has no identity')
  return found
}

const conditions = [
  { type: 'Ready', status: 'True', reason: 'A', message: '', lastTransitionTime: '2030-01-01T00:00:00Z' },
] as const
const whole = (status?: VirtualMachineStatus) =>
  storedVm({
    metadata: {
      name: 'vm',
      labels: { app: 'web' },
      annotations: {
        [completedByAnnotation]: 'default/small',
        'virtset.io/template-revision': 'abc',
        'virtset.io/grace-period-seconds': '7',
        other: 'x',
      },
    },
    spec: {
      domain: { title: 'x', devices: { interfaces: [{ type: 'user', mac: { address: '52:54:00:AA:BB:CC' } }] } },
      terminationGracePeriodSeconds: 60,
    },
    ...(status === undefined ? {} : { status }),
  })
const running: VirtualMachineStatus = {
  phase: 'Running',
  podUID: 'p',
  nodeName: 'n1',
  conditions,
  domain: { title: 'x' },
  podIP: '10.0.0.1',
}

describe('a cached VM', () => {
  it.each<[string, VirtualMachineStatus | undefined]>([
    ['without a status', undefined],
    ['without a pod', { phase: 'Pending' }],
    ['whose pod is not on a node', { phase: 'Scheduling', podUID: 'p' }],
  ])('is stored whole, apart, %s', (_, status) => {
    const vm = whole(status)
    const slim = slimVm(vm)
    expect([slim.isPartial, slim.spec.domain.title, slim.presets]).toEqual([true, undefined, used('default/small')])
    expect(startingVms.get(slim)).toEqual(vm)
    expect(slimVm(slim)).toBe(slim)
  })

  it('is read without large annotations that are not cached, and then not stored apart', () => {
    const many = Object.fromEntries(Array.from({ length: 10_000 }, (_, index) => [`a${index}`, '']))
    const { metadata, ...rest } = whole()
    const annotations = { ...metadata.annotations, ...many }
    const large = { ...rest, metadata: { ...metadata, resourceVersion: '77', annotations } }
    const found = read(large)
    const { other: _, ...cached } = metadata.annotations ?? {}
    const size = { bytes: JSON.stringify(annotations).length, values: 10_005 }
    expect(found).toEqual({ ...large, metadata: { ...large.metadata, annotations: { ...cached, '#': size } } })
    const slim = slimVm(found)
    expect(startingVms.get(slim)).toBeUndefined()
    expect(slim).toEqual(slimVm(large))
  })

  it('is read with all that a pass writes', () => {
    expect(read(whole())).toEqual(whole())
    const { domain: _, ...status } = running
    expect(read({ ...whole(running), metadata: { ...whole().metadata, managedFields: [{}] } })).toEqual(whole(status))
  })

  it('is small, whatever its user and presets wrote', () => {
    const text = 'x'.repeat(200_000)
    const { spec, metadata } = whole()
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: text, uid: 'u' }
    const large = {
      metadata: {
        ...metadata,
        annotations: { ...metadata.annotations, text },
        finalizers: [...(metadata.finalizers ?? []), text],
        ownerReferences: [owner],
        generateName: text,
      },
      spec: { ...spec, domain: { ...spec.domain, description: text } },
    }
    for (const status of [{}, running]) {
      const slim = slimVm({ ...whole(status), ...large })
      expect(JSON.stringify(slim).length).toBeLessThan(2000)
      expect([slim.isPartial, slim.metadata.finalizers]).toEqual([true, metadata.finalizers])
    }
  })

  it('has only what passes read once its pod is on a node', () => {
    const vm = whole(running)
    expect(slimVm(vm)).toEqual({
      apiVersion: vm.apiVersion,
      kind: vm.kind,
      metadata: {
        ...vm.metadata,
        annotations: { 'virtset.io/template-revision': 'abc', 'virtset.io/grace-period-seconds': '7' },
      },
      spec: {
        domain: { devices: { interfaces: [{ mac: { address: '52:54:00:aa:bb:cc' } }] } },
        terminationGracePeriodSeconds: 60,
      },
      status: { phase: 'Running', podUID: 'p', nodeName: 'n1', conditions },
      presets: used('default/small'),
    })
  })

  it('has the images of its volumes until its guest runs', () => {
    const vm = whole({ ...running, phase: 'Scheduled' })
    const volumes = [
      { name: 'root', image: { reference: 'a', capacity: '1Gi' } },
      { name: 'seed', cloudInit: { userData: 'x' } },
    ]
    const withImage = { ...vm, spec: { ...vm.spec, volumes } }
    const scheduled = slimVm(withImage)
    expect(scheduled.spec.volumes).toEqual([{ name: 'root', image: { reference: 'a' } }])
    expect(slimVm(scheduled)).toEqual(scheduled)
    expect(slimVm({ ...withImage, status: running }).spec).not.toHaveProperty('volumes')
  })

  it('has only the first of many images', () => {
    const vm = whole({ ...running, phase: 'Scheduled' })
    const volumes = Array.from({ length: 256 }, (_, index) => ({
      name: `v${index}`,
      image: { reference: `i${index}` },
    }))
    expect(slimVm({ ...vm, spec: { ...vm.spec, volumes } }).spec.volumes).toEqual(volumes.slice(0, 16))
  })

  it('is the same when it is slimmed again, and after its guest ended without a pod', () => {
    const vm = slimVm(whole(running))
    expect(slimVm(vm)).toEqual(vm)
    expect(slimVm(whole({ phase: 'Failed' })).spec.domain.title).toBeUndefined()
  })

  it('keeps the claims that its disks do not share, until it has ended', () => {
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'c' } }]
    const disks = [{ type: 'volume' as const, source: { volume: 'data' }, target: { dev: 'vda' } }]
    const withClaim = (status: VirtualMachineStatus) => {
      const vm = whole(status)
      return { ...vm, spec: { ...vm.spec, domain: { devices: { disks } }, volumes } }
    }
    const slim = slimVm(withClaim(running))
    expect([slim.exclusiveClaims, slimVm(slim)]).toEqual([[{ claimName: 'c', isWriter: true }], slim])
    expect(slimVm(withClaim({ ...running, phase: 'Failed' })).exclusiveClaims).toBeUndefined()
  })

  it('shares its presets with all VMs that have the same', () => {
    expect(slimVm(whole(running)).presets).toBe(slimVm(whole(running)).presets)
  })
})
