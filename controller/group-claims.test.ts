import { expect, test } from 'vitest'
import { apiVersion } from '../api/object.ts'
import { freeNames, numberOf } from './group-claims.ts'

const group = {
  apiVersion,
  kind: 'VirtualMachineGroup',
  metadata: { name: 'web' },
  spec: { replicas: 4, selector: {} },
} as const
const named = (...names: readonly string[]) => names.map((name) => ({ metadata: { name } }))

test.each<[string, number | undefined]>([
  ['web-0', 0],
  ['web-12', 12],
  ['web-01', undefined],
  ['web-a1b2c', undefined],
  ['web-', undefined],
  ['web', undefined],
  ['website-1', undefined],
])('the number of %s is %s', (name, number) => expect(numberOf(group, { metadata: { name } })).toBe(number))

test.each<[string, readonly string[], number, readonly string[]]>([
  ['begin with 0', [], 2, ['web-0', 'web-1']],
  ['fill gaps', ['web-0', 'web-2', 'web-adopted'], 2, ['web-1', 'web-3']],
  ['are only those of the replicas', ['web-0', 'web-2'], 9, ['web-1', 'web-3']],
])('free names %s', (_, taken, count, names) => expect(freeNames(group, named(...taken), count)).toEqual(names))
