import { expect, test } from 'vitest'
import { excludePresetsAnnotation } from '../api/virtual-machine.ts'
import { compileParsed } from './compile.ts'
import { excludePresets, exemptionsToAuthorize } from './exclude.ts'

const presets = Array.from({ length: 2000 }, (_, index) =>
  compileParsed({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { namespace: 'default', name: `preset-${index}` },
    spec: { selector: {} },
  }),
)

test('an annotation that names 40,000 presets is not compared with each preset that selects the VM', () => {
  const names = Array.from({ length: 40_000 }, (_, index) => `n${index}`)
  const annotations = { [excludePresetsAnnotation]: ['preset-1', 'default/preset-2', ...names].join(' , ') }
  const since = process.cpuUsage()
  const { excluded, remaining, warnings } = excludePresets(annotations, presets, new Set())
  const { user, system } = process.cpuUsage(since)
  expect(excluded.map(({ id }) => id)).toEqual(['default/preset-1', 'default/preset-2'])
  expect([remaining.length, warnings.length]).toEqual([1998, 33])
  expect(warnings.at(-1)).toBe(`${excludePresetsAnnotation}: 39968 more presets do not select this VM`)
  expect(user + system).toBeLessThan(1_000_000)
})

test('at most 64 exemptions are authorized, regardless of the number of Enforce presets', () => {
  const enforced = presets.map((preset) => ({ ...preset, strength: 'Enforce' as const }))
  const ids = exemptionsToAuthorize({ [excludePresetsAnnotation]: '*' }, enforced)
  expect([ids.length, ids[0]]).toEqual([64, 'default/preset-0'])
  const { excluded, warnings } = excludePresets({ [excludePresetsAnnotation]: '*' }, enforced, new Set(ids))
  expect([excluded.length, warnings.length, warnings.at(-1)]).toEqual([
    64,
    33,
    `${excludePresetsAnnotation}: 1904 more presets apply`,
  ])
})
