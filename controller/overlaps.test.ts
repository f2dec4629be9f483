import { describe, expect, it } from 'vitest'
import { apiVersion } from '../api/object.ts'
import type { PresetSpec } from '../api/preset.ts'
import { compileParsed } from '../presets/compile.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { virtualMachineStructure } from '../presets/structure.ts'
import { createOverlaps } from './overlaps.ts'

const presets = new Map<string, CompiledPreset>()
const put = (name: string, spec: Partial<PresetSpec>) => {
  const compiled = compileParsed({
    apiVersion,
    kind: 'VirtualMachinePreset',
    metadata: { namespace: 'default', name },
    spec: { selector: {}, ...spec },
  })
  presets.set(compiled.id, compiled)
}

/** Processes a change and all that follow from it, as the queue does; returns the presets that were examined. */
const settle = (overlaps: ReturnType<typeof createOverlaps>, id: string): string[] => {
  overlaps.update(id)
  const looked: string[] = []
  const waiting = [id]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    looked.push(next)
    waiting.push(...overlaps.change(next))
  }
  return looked
}

describe('presets that could disagree', () => {
  it('are reported for both as they are created, changed and deleted', () => {
    const overlaps = createOverlaps((id) => presets.get(id), virtualMachineStructure())
    put('a', { domain: { title: 'one' } })
    expect(settle(overlaps, 'default/a')).toEqual(['default/a'])
    expect(overlaps.of('default/a')).toEqual([])

    put('b', { domain: { title: 'two' } })
    expect(settle(overlaps, 'default/b')).toEqual(['default/b', 'default/a', 'default/b'])
    expect(overlaps.of('default/a')).toEqual([
      expect.stringMatching(/^disagrees with preset "default\/b" on spec.domain.title/),
    ])
    expect(overlaps.of('default/b')).toEqual([
      expect.stringMatching(/^disagrees with preset "default\/a" on spec.domain.title/),
    ])

    put('b', { domain: { title: 'two' }, priority: 5 })
    settle(overlaps, 'default/b')
    expect([overlaps.of('default/a'), overlaps.of('default/b')]).toEqual([[], []])

    put('b', { domain: { title: 'two', description: 'x' } })
    settle(overlaps, 'default/b')
    presets.delete('default/b')
    settle(overlaps, 'default/b')
    expect([overlaps.of('default/a'), overlaps.of('default/b')]).toEqual([[], []])
  })

  it('are not named to readers of other namespaces', () => {
    presets.clear()
    const overlaps = createOverlaps((id) => presets.get(id), virtualMachineStructure())
    const spec = { selector: {}, exclusiveGroup: 'size', domain: { title: 'one' } }
    const metadata = { name: 'public' }
    const shared = compileParsed({ apiVersion, kind: 'ClusterVirtualMachinePreset', metadata, spec })
    presets.set(shared.id, shared)
    settle(overlaps, shared.id)
    for (const name of ['a', 'b']) {
      put(name, { exclusiveGroup: 'size', domain: { description: name } })
      settle(overlaps, `default/${name}`)
    }
    expect(overlaps.of(shared.id)).toEqual(['disagrees with presets of namespaces, whose own conditions state on what'])
    expect(overlaps.of('default/a')).toContainEqual(expect.stringMatching(/^disagrees with preset "public"/))
  })

  it('are limited in number, and the limit is reported', () => {
    presets.clear()
    const overlaps = createOverlaps((id) => presets.get(id), virtualMachineStructure())
    for (let index = 0; index < 20; index++) {
      put(`p${index}`, { domain: { title: `${index}` } })
      overlaps.update(`default/p${index}`)
    }
    overlaps.change('default/p0')
    const sentences = overlaps.of('default/p0')
    expect([sentences.length, sentences.at(-1)]).toEqual([17, 'may disagree with more presets: not all were compared'])
  })
})
