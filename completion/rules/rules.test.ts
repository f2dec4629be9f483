import { expect, test } from 'vitest'
import type { Origin } from '../../api/cause.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import type { MachineSpec } from '../../api/machine.ts'
import { bundledCapabilities as capabilities } from '../capabilities.ts'
import { fillDefaults } from '../defaults/defaults.ts'
import { checkRules, rules } from './rules.ts'

const base = {
  type: 'kvm',
  memory: { unit: 'GiB', value: 1 },
  os: { type: { os: 'hvm' } },
} as const

/** The ids of the rules that a spec breaks, after its defaults. */
function broken(spec: MachineSpec): string[] {
  const written = { ...base, ...spec.domain }
  const { domain, added } = fillDefaults(written, { capabilities, entropy: { uid: 'test' }, name: 'test' })
  const originOf = (path: string): Origin => {
    const rule = added.get(path.replace(/^spec\.domain\./, ''))
    return rule === undefined ? { by: 'user' } : { by: 'default', rule }
  }
  const { causes } = checkRules({ ...spec, domain }, { capabilities, originOf, allowHostReach: false })
  return causes.map(({ rule }) => rule)
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

test('ids are unique and in the form of a word', () => {
  const ids = rules.map(({ id }) => id)
  expect(new Set(ids).size).toBe(ids.length)
  expect(ids.filter((id) => !/^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(id))).toEqual([])
})
