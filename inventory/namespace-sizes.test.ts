import { expect, test } from 'vitest'
import { maxNamespaceSize } from '../presets/check.ts'
import { compilePreset, type CompiledPreset } from '../presets/compile.ts'
import { createNamespaceSizes } from './namespace-sizes.ts'

test('a namespace has at most twice its limit, whatever was deleted or changed', () => {
  const sizes = createNamespaceSizes()
  const add = (name: string, size = maxNamespaceSize, namespace = 'team') => {
    const stored = { kind: 'VirtualMachinePreset', metadata: { name, namespace }, spec: { selector: {} } }
    const compiled = compilePreset(stored)
    const preset = 'preset' in compiled ? ({ ...compiled.preset, size } satisfies CompiledPreset) : undefined
    const limited = sizes.limit(stored, preset === undefined ? compiled : { preset })
    return 'preset' in limited ? 'counted' : limited.quarantined.causes[0]?.rule
  }
  const [counted, refused] = ['counted', 'namespace-presets-size']
  expect([add('a'), add('b'), add('c', 1), add('d', 1, 'other')]).toEqual([counted, counted, refused, counted])
  // The same preset, changed, and one that was not counted.
  expect([add('b', maxNamespaceSize + 1), add('b', maxNamespaceSize - 1)]).toEqual([refused, counted])
  expect(sizes.fitting('team')).toEqual(['team/c'])
  sizes.remove('team/c')
  expect(sizes.fitting('team')).toEqual([])
  expect([add('c', 2), add('c', 1)]).toEqual([refused, counted])
  sizes.remove('team/a')
  sizes.remove('team/a')
  expect(add('e')).toBe(counted)
})
