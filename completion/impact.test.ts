import { describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { bundledCapabilities as capabilities } from './capabilities.ts'
import { complete } from './complete.ts'
import { asWritten, impactOn } from './impact.ts'

const vm = (more: object = {}): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'shop', labels: { app: 'web' }, annotations: {} },
  spec: {
    domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } }, ...more },
  },
})

const presets = (...specs: object[]) =>
  createCandidates(
    specs.map((spec, index) => {
      const compiled = compilePreset({
        apiVersion: 'virtset.io/v1alpha1',
        kind: 'ClusterVirtualMachinePreset',
        metadata: { name: `p${index}` },
        spec: { selector: { matchLabels: { app: 'web' } }, ...spec },
      })
      if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
      return compiled.preset
    }),
  )
const namespace = { name: 'shop', labels: {} }
const completeWith = (given: VirtualMachine) => (of: Pick<ReturnType<typeof presets>, 'select'>) =>
  complete(given, { presets: of, namespace, capabilities, entropy: { uid: 'u' } })

describe('what the user of a completed VM wrote', () => {
  test.each<[string, VirtualMachine, object[]]>([
    ['without presets', vm(), []],
    ['with another field that a preset sets', vm(), [{ domain: { title: 't' }, metadata: { labels: { a: 'b' } } }]],
    ['in a field that a preset overrode', vm({ title: 'mine' }), [{ strength: 'Enforce', domain: { title: 't' } }]],
    [
      'whose branch of a union a preset overrode',
      vm({ clock: { offset: 'variable', adjustment: 5 } }),
      [{ strength: 'Enforce', domain: { clock: { offset: 'utc' } } }],
    ],
    [
      'in a label that a preset overrode',
      { ...vm(), metadata: { ...vm().metadata, labels: { app: 'web', tier: 'mine' } } },
      [{ strength: 'Enforce', metadata: { labels: { tier: 'theirs' } } }],
    ],
  ])('%s', (_, given, specs) => {
    const outcome = completeWith(given)(presets(...specs))
    expect(outcome.outcome).toBe('completed')
    const { spec, metadata } = asWritten('vm' in outcome ? outcome.vm : given)
    const { adjustment: _adjusted, ...clock } = given.spec.domain.clock ?? {}
    const isUnion = given.spec.domain.clock !== undefined
    // The other fields of the branch are no longer in the VM.
    const expected = isUnion ? { ...given.spec, domain: { ...given.spec.domain, clock } } : given.spec
    expect([spec, metadata]).toEqual([expected, given.metadata])
  })

  test('is the current value if the overridden one was too long to record', () => {
    const given = vm({ title: 'm'.repeat(500) })
    const outcome = completeWith(given)(presets({ strength: 'Enforce', domain: { title: 't' } }))
    expect(asWritten('vm' in outcome ? outcome.vm : given).spec.domain.title).toBe('t')
  })
})

describe('the impact on a VM', () => {
  const two = { domain: { vcpu: { value: 2 } } }
  test.each<[string, object[], object[], string | undefined]>([
    ['with the same presets', [two], [two], undefined],
    ['with different presets that set the same', [two], [two, two], undefined],
    ['with another value', [two], [{ domain: { vcpu: { value: 3 } } }], 'different'],
    ['with presets that conflict', [two], [two, { domain: { vcpu: { value: 3 } } }], 'refused'],
    ['with presets that no longer conflict', [two, { domain: { vcpu: { value: 3 } } }], [two], 'freed'],
    [
      'that is refused for the same causes',
      [two, { domain: { vcpu: { value: 3 } } }],
      [two, { domain: { vcpu: { value: 3 } } }, { domain: { title: 't' } }],
      undefined,
    ],
  ])('%s', (_, before, after, kind) => {
    const alternatives = { before: presets(...before), after: presets(...after) }
    expect(impactOn(vm(), namespace, alternatives, completeWith(vm()))?.kind).toBe(kind)
  })
})
