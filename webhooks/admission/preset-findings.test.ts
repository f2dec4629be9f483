import { describe, expect, test } from 'vitest'
import type { Preset } from '../../api/preset.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { candidatesOf, preset } from '../../test/preset.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'
import { cachesWithout } from './caches.ts'
import { noPermissions } from './permission.ts'
import { checkPresetAmong } from './preset-findings.ts'

const granting = preset('grant', { domain: { devices: { emulator: '/bin/qemu' } } })
const titled = preset('title', { selector: { matchLabels: { a: 'b' } }, domain: { title: 'x' } })
const faulty = preset('grant', {
  domain: { titel: 'x', os: { type: { machine: 'q53' } }, devices: { emulator: '/bin/qemu' } } as object,
})
/** Valid when it was written, and no more. */
const outdated = (one: Preset): Preset => ({ ...one, spec: { ...one.spec, domain: { titel: 'x' } as object } })
const stored = (presets: readonly Preset[]) => {
  const compiled = presets.map((one) => compilePreset(one))
  return {
    candidates: createCandidates(compiled.flatMap((one) => ('preset' in one ? [one.preset] : []))),
    quarantined: new Map(
      compiled.flatMap((one) => ('preset' in one ? [] : [[one.quarantined.id, one.quarantined] as const])),
    ),
  }
}
const check = (checked: Preset, others: readonly Preset[] = [], mayGrantHost = false) =>
  checkPresetAmong(
    { ...cachesWithout(fakeClock()), ...stored(others) },
    checked,
    {
      ...noPermissions,
      mayGrantHost,
    },
    true,
  )

test.each<[string, Preset, boolean, readonly string[]]>([
  ['without the permission', granting, false, ['grant-host spec.domain']],
  ['with the permission', granting, true, []],
  [
    'without the permission, and with a fault',
    faulty,
    false,
    ['unknown-field spec.domain.titel', 'grant-host spec.domain'],
  ],
  ['that is not one', titled, false, []],
])('a grant %s', (_, checked, mayGrantHost, expected) => {
  const { causes } = check(checked, [], mayGrantHost)
  expect(causes.map(({ rule, field }) => `${rule} ${field}`)).toEqual(expected)
})

test('the missing permission is named', () => {
  expect(check(granting).causes[0]?.message).toBe(
    'has fields that reach the host: writing them requires the verb "grant-host" on clustervirtualmachinepresets.virtset.io',
  )
})

test('a preset for every item of a list can be valid', () => {
  const disks = [{ target: { dev: '*' }, driver: { cache: 'none' as const } }]
  const { warnings } = check(preset('cache', { domain: { devices: { disks } } }))
  expect(warnings.length).toBe(1)
  expect(warnings[0]).toMatch(/^spec\.selector: /)
})

test('warns about a preset with which no VM can run', () => {
  const { causes, warnings } = check(
    preset('machine', { selector: { matchLabels: { a: 'b' } }, domain: { os: { type: { machine: 'q53' } } } }),
  )
  expect([causes, warnings.length]).toEqual([[], 1])
  expect(warnings[0]).toContain('spec.domain.os.type.machine')
})

const others = Array.from({ length: 7 }, (_, index) => preset(`other-${index}`, { domain: { title: 'y' } }))

test('names five of the presets that it conflicts with', () => {
  const { warnings } = check(titled, others)
  expect(warnings.filter((warning) => warning.includes('other-')).length).toBe(5)
  expect(warnings.at(-1)).toBe('may disagree with more presets: not all were compared')
})

test('a refused preset is not compared with other presets and with the nodes', () => {
  expect(check(faulty, [], true).warnings.filter((warning) => warning.includes('machine'))).toEqual([])
  const refused = preset('bad', { selector: { matchLabels: { a: 'b' } }, domain: { titel: 'x', title: 'x' } as object })
  const { causes, warnings } = check(refused, others)
  expect([causes.length > 0, warnings.filter((warning) => warning.includes('disagree'))]).toEqual([true, []])
  expect(
    check({ ...granting, spec: { ...granting.spec, domain: { ...granting.spec.domain, title: 'x' } } }, others),
  ).toEqual({
    causes: [expect.objectContaining({ rule: 'grant-host' })],
    warnings: [expect.stringMatching(/^spec\.selector: /)],
  })
})

describe('the presets of a namespace together', () => {
  const sized = (name: string, bytes: number, namespace?: string) => {
    const made = (text: string) => preset(name, { mode: 'Audit', metadata: { annotations: { a: text } } }, namespace)
    return made('x'.repeat(bytes - JSON.stringify(made('').spec).length))
  }
  const kib = 1024
  const withPattern = (name: string) =>
    preset(name, { matchConditions: [{ name: 'c', expression: "'a'.matches('((a)){490}')" }] }, 'default')
  const fifteen = Array.from({ length: 15 }, (_, index) => sized(`p${index}`, 64 * kib, 'default'))
  const ofCluster = Array.from({ length: 17 }, (_, index) => sized(`c${index}`, 64 * kib))
  const small = Array.from({ length: 1024 }, (_, index) => preset(`small${index}`, {}, 'default'))
  const full = [...fifteen, sized('last', 63 * kib, 'default')]

  test.each<[string, Preset, readonly Preset[], readonly string[]]>([
    ['have at most 1 MiB', sized('new', kib, 'default'), full, []],
    ['have no byte more', sized('new', kib + 1, 'default'), full, ['namespace-presets-size spec 1048577']],
    [
      'include those that are not applied',
      sized('new', 2 * kib, 'default'),
      full.map(outdated),
      ['namespace-presets-size spec 1049968'],
    ],
    ['count one once that is not applied', sized('last', 63 * kib, 'default'), full.map(outdated), []],
    ['are at most 1024', preset('new', {}, 'default'), small, ['namespace-presets-size spec 1049600']],
    ['count a small one that is written again once', preset('small0', {}, 'default'), small, []],
    ['count a preset once that is written again', sized('last', 64 * kib, 'default'), full, []],
    [
      'count the patterns of conditions',
      withPattern('new'),
      Array.from({ length: 13 }, (_, index) => withPattern(`pattern${index}`)),
      ['namespace-presets-size spec 1114176'],
    ],
    [
      'may be too large, but no preset may grow',
      sized('last', 64 * kib, 'default'),
      [...full, ...small],
      ['namespace-presets-size spec 2097152'],
    ],
    ['may be too large, while a preset does not grow', sized('last', 63 * kib, 'default'), [...full, ...small], []],
    ['do not count for another namespace', sized('new', 64 * kib, 'other'), full, []],
    ['do not count for presets of the cluster', sized('new', 64 * kib + 1), full, []],
    ['do not count presets of the cluster', sized('new', 64 * kib, 'default'), ofCluster, []],
  ])('%s', (_, checked, others, expected) => {
    expect(check(checked, others).causes.map(({ rule, field, value }) => `${rule} ${field} ${String(value)}`)).toEqual(
      expected,
    )
  })
})

test('compares a preset with no other one if it is compared elsewhere', () => {
  const inventory = { ...cachesWithout(fakeClock()), candidates: candidatesOf(...others) }
  expect(checkPresetAmong(inventory, titled, noPermissions, false)).toEqual({ causes: [], warnings: [] })
})
