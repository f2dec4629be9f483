import { expect, test } from 'vitest'
import { parentPath, pathKeys, relatedTo } from './path.ts'

const paths = ['spec.domain.cpu', 'spec.domain.devices.disks[1].target.dev', 'spec.nodeSelector[a.b/c]']

test.each([
  ['spec.domain.cpu', true],
  ['spec.domain.cpu.features[0].name', true],
  ['spec.domain', true],
  ['spec.domain.cputune', false],
  ['spec.domain.devices.disks', true],
  ['spec.domain.devices.disks[1]', true],
  ['spec.domain.devices.disks[1].target', true],
  ['spec.domain.devices.disks[1].target.bus', false],
  ['spec.domain.devices.disks[12]', false],
  ['spec.nodeSelector', true],
  ['spec.nodeSelector[a.b/c]', true],
  ['spec.nodeSelector[a]', false],
  ['', false],
])('%s is one of the paths, or above or below one: %s', (path, isRelated) =>
  expect(relatedTo(paths)(path)).toBe(isRelated),
)

test('the cost for a key with ten thousand dots is linear in its length', () => {
  const long = `spec.domain[${']a.'.repeat(20_000)}]`
  expect(relatedTo([long])('spec.domain')).toBe(true)
})

test.each([
  ['a.b[1]', 'a.b'],
  ['a.b[1].c', 'a.b[1]'],
  ['a[x.y/z]', 'a'],
  ['a[x.y/z].b', 'a[x.y/z]'],
  ['a[0][1]', 'a[0]'],
  ['a.b', 'a'],
  ['a', ''],
  ['', ''],
])('the path above %s is "%s"', (path, above) => {
  expect(parentPath(path)).toBe(above)
})

test.each<[string, (string | number)[]]>([
  ['a.b[1].c', ['a', 'b', 1, 'c']],
  ['a[b.c/d]', ['a', 'b.c/d']],
  ['a[b[c]', ['a', 'b[c']],
  ['a[b].c[d.e', ['a', 'b', 'c', 'd', 'e']],
  // Each would be searched to the end, which would take minutes.
  ['['.repeat(2_000_000), []],
])('the keys of %.20s', (text, keys) => expect(pathKeys(text)).toEqual(keys))
