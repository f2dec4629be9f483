import fc from 'fast-check'
import { expect, test } from 'vitest'
import { createMemory } from './memory.ts'

const letters = 'abcdefgh'.split('')

test('keeps what was asked for lately, and no more than it may', () => {
  const keys = fc.constantFrom(...letters)
  const steps = fc.array(fc.tuple(fc.constantFrom('get', 'set'), keys), { maxLength: 60 })
  fc.assert(
    fc.property(steps, (taken) => {
      const memory = createMemory<string>(6)
      const recent: string[] = []
      for (const [what, key] of taken) {
        if (what === 'set') memory.set(key, `of ${key}`)
        const found = memory.get(key)
        // The last two besides it are younger than half of what is kept.
        expect(recent.slice(-2).includes(key) ? [`of ${key}`] : [`of ${key}`, undefined]).toContain(found)
        if (found !== undefined) recent.push(key)
      }
      expect(letters.filter((key) => memory.get(key) !== undefined).length).toBeLessThanOrEqual(6)
    }),
  )
})

test('large things take the place of many', () => {
  const memory = createMemory<number>(10, (size) => size)
  for (const [key, size] of Object.entries({ a: 1, b: 1, c: 9, d: 1 })) memory.set(key, size)
  expect(['a', 'b', 'c', 'd'].map((key) => memory.get(key))).toEqual([undefined, undefined, 9, 1])
})
