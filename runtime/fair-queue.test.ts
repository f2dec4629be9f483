import { expect, test } from 'vitest'
import { createFairQueue } from './fair-queue.ts'

/** Items named by their tenant and a number. */
function setUp(...names: string[]) {
  const queue = createFairQueue<string>()
  const add = (name: string) => queue.add(name.slice(0, 1), name)
  names.forEach(add)
  const takeAll = (accepts?: (tenant: string) => boolean) => {
    const taken: string[] = []
    for (let next = queue.take(accepts); next !== undefined; next = queue.take(accepts)) taken.push(next)
    return taken
  }
  return { queue, add, takeAll }
}

test('tenants take turns, each with its oldest item', () => {
  const { takeAll } = setUp('a1', 'a2', 'a3', 'b1', 'c1', 'c2')
  expect(takeAll()).toEqual(['a1', 'b1', 'c1', 'a2', 'c2', 'a3'])
})

test('a tenant that comes later waits for one item of each other tenant', () => {
  const { queue, add, takeAll } = setUp('a1', 'a2', 'b1', 'b2')
  expect([queue.size(), queue.take(), queue.size()]).toEqual([4, 'a1', 3])
  add('c1')
  expect(takeAll()).toEqual(['b1', 'a2', 'c1', 'b2'])
})

test('a tenant that is not accepted keeps its turn', () => {
  const { takeAll } = setUp('a1', 'a2', 'b1', 'b2')
  expect(takeAll((tenant) => tenant === 'b')).toEqual(['b1', 'b2'])
  expect(takeAll()).toEqual(['a1', 'a2'])
})

test('an item that was removed is not taken; removing it again changes nothing', () => {
  const { add, takeAll } = setUp('b1')
  const remove = add('a1')
  remove()
  add('a2')
  remove()
  expect(takeAll()).toEqual(['b1', 'a2'])
})

test('the members of a tenant take turns; one that no longer waits is forgotten', () => {
  const { queue, takeAll } = setUp('b1', 'b2')
  for (const item of ['x1', 'x2', 'x3', 'y1', 'y2']) queue.add('a', item, item.slice(0, 1))
  queue.add('a', 'z1', 'z')()
  expect([queue.size(), takeAll()]).toEqual([7, ['b1', 'x1', 'b2', 'y1', 'x2', 'y2', 'x3']])
})
