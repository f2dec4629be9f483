import { expect, test } from 'vitest'
import type { Origin } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import type { MachineSpec } from '../../api/machine.ts'
import { bundledCapabilities as capabilities } from '../capabilities.ts'
import { addedPaths } from '../defaults/apply.ts'
import { fillDefaults } from '../defaults/defaults.ts'
import type { RuleContext } from './rule.ts'
import { checkRules, rules } from './rules.ts'
import { warnings } from './warnings.ts'

const base = {
  type: 'kvm',
  memory: { unit: 'GiB', value: 1 },
  os: { type: { os: 'hvm' } },
} as const

/** A spec after its defaults, and what rules need to judge it. */
function prepared(spec: MachineSpec): [MachineSpec, RuleContext] {
  const written = { ...base, ...spec.domain }
  const { domain, added } = fillDefaults(written, { capabilities, entropy: { uid: 'test' }, name: 'test' })
  const paths = addedPaths(added, domain)
  const originOf = (path: string): Origin => {
    const rule = paths.get(path.replace(/^spec\.domain\./, ''))
    return rule === undefined ? { by: 'user' } : { by: 'default', rule }
  }
  return [
    { ...spec, domain },
    {
      capabilities,
      originOf,
      isGranted: (path) => originOf(path).by === 'default',
      isMacTaken: (address) => address === '52:54:00:00:00:0a',
    },
  ]
}

/** The ids of the rules that a spec breaks. */
const broken = (spec: MachineSpec): string[] => checkRules(...prepared(spec)).causes.map(({ rule }) => rule)

const warned = (spec: MachineSpec, check: (typeof warnings)[number]['check']): string[] => {
  const [whole, context] = prepared(spec)
  return [...check({ ...context, spec: whole, domain: canonicalSpelling(whole.domain) })]
}

test.each(rules.map((rule) => [rule.id, rule] as const))(
  '%s: an example breaks it, another just does not',
  (id, rule) => {
    const { breaks, holds } = rule.example
    expect(validateDomain({ ...base, ...breaks.domain })).toEqual([])
    expect(validateDomain({ ...base, ...holds.domain })).toEqual([])
    expect(broken(breaks)).toContain(id)
    expect(broken(holds).filter((one) => one === id || one !== 'host-reach')).toEqual([])
  },
)

test.each(warnings.map((warning) => [warning.id, warning] as const))(
  '%s warns, in a short line',
  (_, { check, example }) => {
    const lines = warned(example.breaks, check)
    expect(lines.length).toBe(1)
    expect(lines.filter((line) => line.length >= 120)).toEqual([])
    expect(warned(example.holds, check)).toEqual([])
    expect(broken(example.holds).filter((rule) => rule !== 'host-reach')).toEqual([])
  },
)

const virtioConsole = (address: object): Domain => ({
  devices: { consoles: [{ target: { type: 'virtio' }, address: { type: 'virtio-serial', ...address } }] },
})

const switchPort = (address: object): Domain => ({
  os: { type: { os: 'hvm', machine: 'q35' } },
  devices: {
    controllers: [
      { type: 'pci', model: 'pcie-root' },
      { type: 'pci', model: 'pcie-switch-downstream-port', ...address },
    ],
  },
})

/** What one example of a rule does not show; each tried with libvirt. */
test.each<[string, Domain, string[]]>([
  [
    'a console that asks controller 1 for a port, where there is no controller 0',
    virtioConsole({ controller: 1 }),
    ['virtio-serial-port'],
  ],
  ['one that asks controller 0', virtioConsole({ controller: 0 }), []],
  ['one with a port', virtioConsole({ controller: 1, port: '3' }), []],
  ['a port of a switch without its switch', switchPort({}), ['pci-order']],
  ['one whose address says nothing', switchPort({ address: { type: 'pci' } }), ['pci-order']],
  ['statistics without a period', { devices: { memballoon: { model: 'virtio', stats: {} } } }, ['required-field']],
])('%s', (_, domain, ids) => expect(broken({ domain })).toEqual(ids))

test('ids are unique and in the form of a word', () => {
  const ids = [...rules, ...warnings].map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.filter((id) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(id))).toEqual([])
})
