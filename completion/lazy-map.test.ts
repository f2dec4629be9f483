import { expect, test } from 'vitest'
import { lazyMap } from './lazy-map.ts'

test('a lazy map is created once, on first access', () => {
  const map = new Map([
    ['a', 1],
    ['b', 2],
  ])
  let count = 0
  const lazy = lazyMap(() => {
    count += 1
    return map
  })
  expect(count).toBe(0)
  expect([lazy.size, lazy.get('b'), lazy.has('b'), lazy.has('c')]).toEqual([2, 2, true, false])
  expect([[...lazy], [...lazy.entries()], [...lazy.keys()], [...lazy.values()]]).toEqual([
    [...map],
    [...map],
    ['a', 'b'],
    [1, 2],
  ])
  const seen: unknown[] = []
  lazy.forEach((value, key) => seen.push([key, value]))
  expect(seen).toEqual([...map])
  expect(count).toBe(1)
})
