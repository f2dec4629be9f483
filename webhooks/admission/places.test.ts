import { expect, test } from 'vitest'
import { createPlaces } from './places.ts'

const object = (name: string, namespace = 'shop') => ({
  metadata: { name, namespace, uid: `${namespace}-${name}`, resourceVersion: '1' },
})

test('the first objects of each namespace have places, until they are gone', () => {
  const places = createPlaces(2)
  const take = (...names: string[]) => names.filter((name) => places.take(object(name)))
  expect(take('a', 'b', 'c', 'a', 'b')).toEqual(['a', 'b', 'a', 'b'])
  expect(places.take(object('a', 'other'))).toBe(true)
  places.leave(object('c'))
  expect(take('c')).toEqual([])
  places.leave(object('a'))
  expect(take('c', 'a', 'b')).toEqual(['c', 'b'])
  for (const name of ['b', 'c']) places.leave(object(name))
  expect(take('d', 'e', 'f')).toEqual(['d', 'e'])
})
