import { describe, expect, it } from 'vitest'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import { storedVm } from '../test/stored-vm.ts'
import { vmSlimmer } from './slim-vm.ts'

const used = (name: string) => new Map([[name, 'r1']])
const slimVm = vmSlimmer(({ metadata }) => used(metadata.annotations?.[completedByAnnotation] ?? ''))

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
  ])('is whole %s', (_, status) => {
    const vm = whole(status)
    expect(slimVm(vm)).toBe(vm)
  })

  it('is partial while it waits and is large, and stays so when it is slimmed again', () => {
    const vm = whole()
    const large = { ...vm, spec: { domain: { ...vm.spec.domain, description: 'x'.repeat(20_000) } } }
    const partial = slimVm(large)
    expect(partial).toMatchObject({ isPartial: true, metadata: { name: 'vm' }, presets: used('default/small') })
    expect(JSON.stringify(partial)).not.toContain('xx')
    expect(slimVm(partial)).toBe(partial)
  })

  it('has only what rounds read once its pod is on a node', () => {
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

  it('is the same when it is slimmed again, and after its guest ended without a pod', () => {
    const vm = slimVm(whole(running))
    expect(slimVm(vm)).toEqual(vm)
    expect(slimVm(whole({ phase: 'Failed' })).spec.domain.title).toBeUndefined()
  })

  it('shares its presets with all VMs that have the same', () => {
    expect(slimVm(whole(running)).presets).toBe(slimVm(whole(running)).presets)
  })
})
