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
const settle = async (overlaps: ReturnType<typeof createOverlaps>, id: string): Promise<string[]> => {
  overlaps.update(id)
  const looked: string[] = []
  const waiting = [id]
  for (let next = waiting.shift(); next !== undefined; next = waiting.shift()) {
    looked.push(next)
    waiting.push(...(await overlaps.change(next)))
  }
  return looked
}

describe('presets that could disagree', () => {
  it('are reported for both as they are created, changed and deleted', async () => {
    const overlaps = createOverlaps((id) => presets.get(id), virtualMachineStructure())
    put('a', { domain: { title: 'one' } })
    expect(await settle(overlaps, 'default/a')).toEqual(['default/a'])
    expect(overlaps.of('default/a')).toEqual([])

    put('b', { domain: { title: 'two' } })
    expect(await settle(overlaps, 'default/b')).toEqual(['default/b', 'default/a', 'default/b'])
    expect(overlaps.of('default/a')).toEqual([
      expect.stringMatching(/^disagrees with preset "default\/b" on spec.domain.title/),
    ])
    expect(overlaps.of('default/b')).toEqual([
      expect.stringMatching(/^disagrees with preset "default\/a" on spec.domain.title/),
    ])

    put('b', { domain: { title: 'two' }, priority: 5 })
    await settle(overlaps, 'default/b')
    expect([overlaps.of('default/a'), overlaps.of('default/b')]).toEqual([[], []])

    put('b', { domain: { title: 'two', description: 'x' } })
    await settle(overlaps, 'default/b')
    presets.delete('default/b')
    await settle(overlaps, 'default/b')
    expect([overlaps.of('default/a'), overlaps.of('default/b')]).toEqual([[], []])
  })

  describe('of the cluster and of a namespace', () => {
    const setUp = () => {
      presets.clear()
      return createOverlaps((id) => presets.get(id), virtualMachineStructure())
    }
    const putShared = (name: string, spec: Partial<PresetSpec>) => {
      const whole = { selector: {}, ...spec }
      const compiled = compileParsed({
        apiVersion,
        kind: 'ClusterVirtualMachinePreset',
        metadata: { name },
        spec: whole,
      })
      presets.set(compiled.id, compiled)
    }
    const disagrees = (other: string) => expect.stringContaining(`disagrees with preset "${other}" on exclusiveGroup`)

    it('are reported only by that of the namespace, however often it changes', async () => {
      const overlaps = setUp()
      for (const name of ['p', 'q']) {
        putShared(name, { exclusiveGroup: 'size' })
        await settle(overlaps, name)
      }
      expect([overlaps.of('p'), overlaps.of('q')]).toEqual([[disagrees('q')], [disagrees('p')]])
      for (const exclusiveGroup of ['size', 'other', 'size']) {
        put('a', { exclusiveGroup })
        expect(await settle(overlaps, 'default/a')).toEqual(['default/a'])
        expect([overlaps.of('p'), overlaps.of('q')]).toEqual([[disagrees('q')], [disagrees('p')]])
        expect(overlaps.of('default/a')).toEqual(exclusiveGroup === 'size' ? [disagrees('p'), disagrees('q')] : [])
      }
      presets.delete('default/a')
      expect(await settle(overlaps, 'default/a')).toEqual(['default/a'])
    })

    it('are reported when that of the cluster is created, changed or deleted', async () => {
      const overlaps = setUp()
      for (const name of ['a', 'b']) {
        put(name, { exclusiveGroup: name })
        await settle(overlaps, `default/${name}`)
      }
      const seen = () => ['default/a', 'default/b', 'p'].map((id) => overlaps.of(id))
      for (const [exclusiveGroup, expected] of [
        ['a', [[disagrees('p')], [], []]],
        ['b', [[], [disagrees('p')], []]],
        ['c', [[], [], []]],
        ['a', [[disagrees('p')], [], []]],
      ] as const) {
        putShared('p', { exclusiveGroup })
        await settle(overlaps, 'p')
        expect(seen()).toEqual(expected)
      }
      put('b', { exclusiveGroup: 'a' })
      await settle(overlaps, 'default/b')
      presets.delete('p')
      await settle(overlaps, 'p')
      expect(seen().flat()).toEqual([disagrees('default/b'), disagrees('default/a')])
    })

    it('are reported when both change, and the sentence about them stays the same', async () => {
      const overlaps = setUp()
      putShared('p', { exclusiveGroup: 'one' })
      put('a', { exclusiveGroup: 'one' })
      for (const id of ['p', 'default/a']) await settle(overlaps, id)
      put('a', { exclusiveGroup: 'two' })
      await settle(overlaps, 'default/a')
      putShared('p', { exclusiveGroup: 'two' })
      expect(await settle(overlaps, 'p')).toEqual(['p', 'default/a'])
      expect(overlaps.of('default/a')).toEqual([disagrees('p')])
      expect(await settle(overlaps, 'p')).toEqual(['p'])
    })

    it('are those of the last revision of that of the cluster, if it changes while they are compared', async () => {
      presets.clear()
      const changed: string[] = []
      const overlaps: ReturnType<typeof createOverlaps> = createOverlaps(
        (id) => presets.get(id),
        virtualMachineStructure(),
        async () => {
          if (changed.length > 0) return
          changed.push('p')
          putShared('p', { exclusiveGroup: 'other' })
          changed.push(...(await settle(overlaps, 'p')))
        },
      )
      putShared('p', { exclusiveGroup: 'size' })
      put('a', { exclusiveGroup: 'size' })
      overlaps.update('p')
      expect(await settle(overlaps, 'default/a')).toEqual(['default/a', 'default/a'])
      expect(changed).toEqual(['p', 'p'])
      expect(overlaps.of('default/a')).toEqual([])
    })

    it('are limited, and those of namespaces leave room for those of the cluster', async () => {
      const overlaps = setUp()
      putShared('z', { exclusiveGroup: 'size' })
      for (let index = 0; index < 20; index++) {
        put(`p${index}`, { exclusiveGroup: 'size' })
        overlaps.update(`default/p${index}`)
      }
      overlaps.update('z')
      putShared('zz', { exclusiveGroup: 'size' })
      overlaps.update('zz')
      expect(await overlaps.change('zz')).toHaveLength(17)
      expect(overlaps.of('zz')).toEqual([disagrees('z')])
    })
  })

  it('are limited in number, and the limit is reported', async () => {
    presets.clear()
    const overlaps = createOverlaps((id) => presets.get(id), virtualMachineStructure())
    for (let index = 0; index < 20; index++) {
      put(`p${index}`, { domain: { title: `${index}` } })
      overlaps.update(`default/p${index}`)
    }
    await overlaps.change('default/p0')
    const sentences = overlaps.of('default/p0')
    expect([sentences.length, sentences.at(-1)]).toEqual([17, 'may disagree with more presets: not all were compared'])
  })

  it('are compared one at a time, with other work in between', async () => {
    presets.clear()
    let pauses = 0
    const pause = async () => void pauses++
    const overlaps = createOverlaps((id) => presets.get(id), virtualMachineStructure(), pause)
    for (let index = 0; index < 10; index++) {
      put(`p${index}`, { domain: { title: `${index}` } })
      overlaps.update(`default/p${index}`)
    }
    expect(await overlaps.change('default/p0')).toHaveLength(9)
    expect(pauses).toBe(9)
  })

  it('are those of the last revision of a preset that changes while it is compared', async () => {
    presets.clear()
    const waiting: string[] = []
    const pause = async () => {
      if (waiting.length > 0) return
      put('b', { domain: { title: 'one' } })
      overlaps.update('default/b')
      waiting.push('default/b')
    }
    const overlaps: ReturnType<typeof createOverlaps> = createOverlaps(
      (id) => presets.get(id),
      virtualMachineStructure(),
      pause,
    )
    put('a', { domain: { title: 'one' } })
    put('b', { domain: { title: 'two' } })
    for (const id of ['default/a', 'default/b']) overlaps.update(id)
    const changed = await overlaps.change('default/a')
    expect(changed).toEqual(['default/b'])
    for (const id of waiting) for (const other of await overlaps.change(id)) await settle(overlaps, other)
    expect([overlaps.of('default/a'), overlaps.of('default/b')]).toEqual([[], []])
  })
})
