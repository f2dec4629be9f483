import { describe, expect, test } from 'vitest'
import { excludePresetsAnnotation } from '../api/virtual-machine.ts'
import { compileParsed } from './compile.ts'
import { excludePresets, exclusionWarnings, exemptionsToAuthorize } from './exclude.ts'

const presets = Array.from({ length: 2000 }, (_, index) =>
  compileParsed({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { namespace: 'default', name: `preset-${index}` },
    spec: { selector: {} },
  }),
)

test('an annotation that names 30,000 presets is not compared with each preset that selects the VM', () => {
  const names = Array.from({ length: 30_000 }, (_, index) => `n${index}`)
  const annotations = { [excludePresetsAnnotation]: ['preset-1', 'default/preset-2', ...names].join(' , ') }
  const since = process.cpuUsage()
  const { excluded, remaining, ...named } = excludePresets(annotations, presets, new Set())
  const warnings = exclusionWarnings(named, 'VM')
  const { user, system } = process.cpuUsage(since)
  expect(excluded.map(({ id }) => id)).toEqual(['default/preset-1', 'default/preset-2'])
  expect([remaining.length, warnings.length]).toEqual([1998, 33])
  expect(warnings.at(-1)).toBe(`${excludePresetsAnnotation}: 29968 more presets do not select this VM`)
  expect(user + system).toBeLessThan(1_000_000)
})

test('an annotation is read as far as the API server accepts it', () => {
  const { excluded } = excludePresets(
    { [excludePresetsAnnotation]: `${','.repeat(2 ** 18)}preset-1` },
    presets,
    new Set(),
  )
  expect(excluded).toEqual([])
})

test('at most 64 exemptions are authorized, regardless of the number of Enforce presets', () => {
  const enforced = presets.map((preset) => ({ ...preset, strength: 'Enforce' as const }))
  const ids = exemptionsToAuthorize({ [excludePresetsAnnotation]: '*' }, enforced)
  expect([ids.length, ids[0]]).toEqual([64, 'default/preset-0'])
  const { excluded, ...named } = excludePresets({ [excludePresetsAnnotation]: '*' }, enforced, new Set(ids))
  const warnings = exclusionWarnings(named, 'VM')
  expect([excluded.length, warnings.length, warnings.at(-1)]).toEqual([
    64,
    33,
    `${excludePresetsAnnotation}: 1904 more presets apply`,
  ])
})

describe('a VM excludes', () => {
  const make = (name: string, strength: 'Default' | 'Enforce', namespace?: string) =>
    compileParsed({
      apiVersion: 'virtset.io/v1alpha1',
      kind: namespace === undefined ? 'ClusterVirtualMachinePreset' : 'VirtualMachinePreset',
      metadata: { name, ...(namespace === undefined ? {} : { namespace }) },
      spec: { selector: {}, strength },
    })
  const selected = [make('ours', 'Default', 'team'), make('rule', 'Enforce', 'team'), make('base', 'Default')]
  const applies = (id: string) =>
    `${excludePresetsAnnotation}: preset "${id}" applies: to exclude it requires the verb "exempt" on it`
  const idle = (name: string) => `${excludePresetsAnnotation}: no preset "${name}" selects this VM`

  test.each<[string, string | undefined, readonly string[], readonly string[], readonly string[]]>([
    ['nothing without the annotation', undefined, [], [], []],
    ['nothing with an empty annotation', ' , ', [], [], []],
    ['a default of its namespace by name', 'ours', [], ['team/ours'], []],
    ['a default of its namespace by ID', 'team/ours', [], ['team/ours'], []],
    ['no enforcing preset without an exemption', 'rule', [], [], [applies('team/rule')]],
    ['an enforcing preset with an exemption', 'rule', ['team/rule'], ['team/rule'], []],
    ['no default of the cluster without an exemption', 'base', [], [], [applies('base')]],
    ['a default of the cluster with an exemption', 'base', ['base'], ['base'], []],
    ['no preset that it does not name, even with an exemption', 'ours', ['base'], ['team/ours'], []],
    ['all that it can with *', '*', ['base'], ['team/ours', 'base'], [applies('team/rule')]],
    ['no preset of another name', 'our', [], [], [idle('our')]],
  ])('%s', (_, names, exempt, expected, warnings) => {
    const annotations = names === undefined ? {} : { [excludePresetsAnnotation]: names }
    const result = excludePresets(annotations, selected, new Set(exempt))
    expect(result.excluded.map(({ id }) => id)).toEqual(expected)
    expect(result.remaining).toEqual(selected.filter((one) => !result.excluded.includes(one)))
    expect(exclusionWarnings(result, 'VM')).toEqual(warnings)
  })

  test.each<[string, string | undefined, readonly string[]]>([
    ['nothing without the annotation', undefined, []],
    ['no default of the namespace', 'ours', []],
    ['an enforcing preset that is named', 'rule', ['team/rule']],
    ['a default of the cluster that is named', 'base', ['base']],
    ['all but the defaults of the namespace with *, sorted', '*', ['base', 'team/rule']],
  ])('with an exemption to authorize for %s', (_, names, expected) => {
    const annotations = names === undefined ? undefined : { [excludePresetsAnnotation]: names }
    expect(exemptionsToAuthorize(annotations, selected)).toEqual(expected)
  })
})
