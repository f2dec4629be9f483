import { describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete, type Completed } from '../../completion/complete.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'
import { writtenOver } from './written-over.ts'

const apiVersion = 'virtset.io/v1alpha1'
const spec = {
  selector: {},
  strength: 'Enforce',
  domain: {
    title: 'enforced',
    devices: {
      interfaces: [{ type: 'bridge', alias: { name: 'ua-net' }, source: { bridge: 'br-tenants' } }],
      serials: [{ type: 'pty', alias: { name: 'ua-console' } }],
    },
  },
  remove: ['domain.devices.watchdogs'],
}
const compiled = compilePreset({
  apiVersion,
  kind: 'ClusterVirtualMachinePreset',
  metadata: { name: 'site' },
  spec,
})
if (!('preset' in compiled)) throw new Error(JSON.stringify(compiled))
const presets = createCandidates([compiled.preset])

const completed = (vm: VirtualMachine): Completed => {
  const namespace = { name: 'team', labels: {} }
  const outcome = complete(vm, { presets, namespace, capabilities, entropy: { uid: 'request' } })
  if (outcome.outcome === 'refused') throw new Error(JSON.stringify(outcome.causes))
  return outcome
}
const domain = { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } as const
const vmWith = (more: object): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name: 'web', namespace: 'team' },
  spec: { domain: { ...domain, ...more } },
})
const changed = (vm: VirtualMachine, more: object): VirtualMachine => ({
  ...vm,
  spec: { ...vm.spec, domain: { ...vm.spec.domain, ...more } },
})

/** The fields of the causes, if another webhook makes this of a completed VM. */
const fieldsOf = (vm: VirtualMachine) => writtenOver(vm, completed(vm)).map(({ field }) => field)

describe('a completed VM', () => {
  test.each([
    ['of which its user stated nothing that is enforced', {}],
    ['of which its user stated something else', { title: 'users', devices: { watchdogs: [{ model: 'i6300esb' }] } }],
  ])('%s is what presets enforce', (_, more) => expect(fieldsOf(completed(vmWith(more)).vm)).toEqual([]))

  test('whose enforced title another webhook has replaced is not', () => {
    const { vm } = completed(vmWith({ title: 'users' }))
    const causes = writtenOver(changed(vm, { title: 'other' }), completed(changed(vm, { title: 'other' })))
    expect(causes).toMatchObject([{ rule: 'enforced', field: 'spec.domain.title', value: 'other' }])
    expect(causes[0]?.message).toContain('is not what preset "site" enforces')
  })

  test('of which another webhook has removed what is enforced is not', () => {
    const { vm } = completed(vmWith({}))
    const { title: _title, devices, ...rest } = vm.spec.domain
    const without = { ...vm, spec: { ...vm.spec, domain: { ...rest, devices: { ...devices, serials: [] } } } }
    expect(fieldsOf(without).toSorted()).toEqual([
      'spec.domain.devices.serials[0].alias.name',
      'spec.domain.devices.serials[0].type',
      'spec.domain.title',
    ])
  })

  test('that a replica has completed without a new preset is not', () => {
    expect(fieldsOf(vmWith({}))).toContain('spec.domain.title')
  })

  test('whose enforced bridge another webhook has replaced is not', () => {
    const { vm } = completed(vmWith({}))
    const [first, ...rest] = vm.spec.domain.devices?.interfaces ?? []
    const interfaces = [{ ...first, source: { bridge: 'br-storage' } }, ...rest]
    const other = changed(vm, { devices: { ...vm.spec.domain.devices, interfaces } })
    expect(fieldsOf(other)).toEqual(['spec.domain.devices.interfaces[0].source.bridge'])
  })

  test('to which another webhook has added what presets remove is not', () => {
    const { vm } = completed(vmWith({}))
    const devices = { ...vm.spec.domain.devices, watchdogs: [{ model: 'i6300esb', action: 'reset' }] }
    expect(fieldsOf(changed(vm, { devices }))).toEqual(['spec.domain.devices.watchdogs'])
  })

  test('to which another webhook has added something else is', () => {
    expect(fieldsOf(changed(completed(vmWith({})).vm, { description: 'by a webhook' }))).toEqual([])
  })
})
