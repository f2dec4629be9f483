import { describe, expect, it } from 'vitest'
import { completedByAnnotation, macsOf } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { ownerReference } from '../api/template.ts'
import { emptyInventory, isOther, type Inventory } from '../inventory/inventory.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compileParsed } from '../presets/compile.ts'
import { storedVm } from '../test/stored-vm.ts'
import { createEngine } from './engine.ts'

const preset = compileParsed({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachinePreset',
  metadata: { namespace: 'default', name: 'titled' },
  spec: { selector: {}, domain: { title: 'by a preset' } },
})
const inventory = { ...emptyInventory(), candidates: createCandidates([preset]) }
const engine = createEngine(inventory)
const slipped = (spec: object) => storedVm({ spec: spec as never, metadata: { annotations: {} } })
const domain = { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } }

describe('the controller’s engine', () => {
  it('completes a VM that bypassed admission, with its presets, once', () => {
    const outcome = engine.complete(slipped({ domain }))
    if ('causes' in outcome) throw new Error(JSON.stringify(outcome.causes))
    const { vm } = outcome
    expect(vm.spec.domain).toMatchObject({ ...domain, title: 'by a preset', uuid: expect.any(String) })
    expect(engine.presetsOf(vm)).toEqual(new Map([['default/titled', preset.origin.revision]]))
    expect(engine.complete(vm)).toMatchObject({ vm: { spec: vm.spec } })
    expect(engine.complete(slipped({ domain }))).toEqual(outcome)
  })

  it('avoids the MAC addresses of other VMs of the cluster', () => {
    const vm = slipped({ domain: { ...domain, devices: { interfaces: [{ type: 'user' }, { type: 'user' }] } } })
    const macsWhere = (holders: readonly VirtualMachine[]): readonly string[] => {
      const isMacTaken: Inventory['isMacTaken'] = (address, vm) =>
        holders.some((holder) => macsOf(holder.spec).includes(address) && isOther(holder, vm))
      const outcome = createEngine({ ...inventory, isMacTaken }).complete(vm)
      return 'causes' in outcome ? [] : macsOf(outcome.vm.spec)
    }
    const drawn = macsWhere([])
    expect(new Set(drawn).size).toBe(2)
    const interfaces = drawn.slice(0, 1).map((address) => ({ type: 'user', mac: { address } }))
    const holder = slipped({ domain: { ...domain, devices: { interfaces } } })
    expect(macsWhere([holder])).toEqual(drawn)
    const others = macsWhere([{ ...holder, metadata: { ...holder.metadata, name: 'other' } }])
    expect([others.length, others[0] === drawn[0], others[1] === drawn[1]]).toEqual([2, false, true])
  })

  it('gives the VM of a config the same MAC addresses at each start, even if another VM has taken them', () => {
    const vm = slipped({ domain: { ...domain, devices: { interfaces: [{ type: 'user' }] } } })
    const owner = ownerReference({ kind: 'VirtualMachineConfig', metadata: { name: vm.metadata.name, uid: 'config' } })
    const ofConfig = { ...vm, metadata: { ...vm.metadata, ownerReferences: [owner] } }
    const macsWhere = (isMacTaken: Inventory['isMacTaken']): readonly string[] => {
      const outcome = createEngine({ ...inventory, isMacTaken }).complete(ofConfig)
      return 'causes' in outcome ? [] : macsOf(outcome.vm.spec)
    }
    const first = macsWhere(() => false)
    expect(first.length).toBe(1)
    expect(macsWhere(() => true)).toEqual(first)
  })

  it('rejects an object with another shape than a VM', () => {
    expect(engine.complete(slipped({ domain: { memery: 1 } }))).toMatchObject({
      causes: [{ field: 'spec.domain.memery' }],
    })
  })

  it('rejects a VM that exceeds the work limit of a check', () => {
    const ranges = Array.from({ length: 256 }, (_, start) => ({ start: start + 1 }))
    const portForwards = [{ ranges }, { ranges }, { ranges }]
    const interfaces = Array.from({ length: 256 }, () => ({ type: 'user', portForwards }))
    const large = { ...domain, devices: { interfaces } }
    const claimed = slipped({ domain: large })
    const vm = {
      ...claimed,
      metadata: { ...claimed.metadata, annotations: { [completedByAnnotation]: '{"v":1,"by":[]}' } },
    }
    expect(engine.refusals(vm)).toMatchObject([{ rule: 'too-much-work' }])
  })

  it('decodes the provenance of a VM once for all of its events', () => {
    const outcome = engine.complete(slipped({ domain }))
    if ('causes' in outcome) throw new Error(JSON.stringify(outcome.causes))
    const later = { ...outcome.vm, metadata: { ...outcome.vm.metadata, resourceVersion: '2' } }
    expect(engine.presetsOf(later)).toBe(engine.presetsOf(outcome.vm))
  })

  it.each([undefined, '', 'provenance', '{}'])('a VM with the annotation %j was never completed', (text) => {
    const annotations = text === undefined ? {} : { [completedByAnnotation]: text }
    expect(engine.presetsOf(storedVm({ metadata: { annotations } }))).toBeUndefined()
  })

  it('does not trust a claimed grant of host access', () => {
    const claimed = (devices: object, by: string) => {
      const vm = slipped({ domain: { ...domain, devices } })
      return { ...vm, metadata: { ...vm.metadata, annotations: { [completedByAnnotation]: by } } }
    }
    const forged = '{"v":1,"by":[["","operators","1"],"=emulator"],"at":{"spec":{"domain":{"devices":0}}}}'
    const outcome = engine.complete(slipped({ domain }))
    if ('causes' in outcome) throw new Error(JSON.stringify(outcome.causes))
    expect(engine.refusals(outcome.vm)).toEqual([])
    expect(engine.refusals(claimed({ emulator: '/tmp/evil' }, forged))).toMatchObject([
      { rule: 'host-reach', field: 'spec.domain.devices.emulator' },
    ])
    expect(engine.refusals(claimed({ emulater: '/tmp/evil' }, forged))).toMatchObject([
      { rule: 'unknown-field', field: 'spec.domain.devices.emulater' },
    ])
  })
})
