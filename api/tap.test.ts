import { expect, test } from 'vitest'
import type { Domain } from './domain/domain.ts'
import { checkSchema } from './schema.ts'
import { isForeign, taps, usedTaps } from './tap.ts'

const mac = { address: '52:54:00:AA:00:01' }

test('the taps in use are those that an interface of type ethernet names', () => {
  const interfaces: NonNullable<NonNullable<Domain['devices']>['interfaces']> = [
    { type: 'user', target: { dev: 'tap0' }, mac },
    { type: 'ethernet', target: { dev: 'tap1', managed: false }, mac, driver: { queues: '4' } },
    { type: 'ethernet', target: { dev: 'tap9', managed: false }, mac },
    { type: 'ethernet', target: { dev: 'tap2' } },
    { type: 'ethernet', mac },
  ]
  const given = [
    { dev: 'tap0', plugin: 'routed' },
    { dev: 'tap1', plugin: 'redirect', network: 'lab' },
    { dev: 'tap2', plugin: 'routed' },
  ]
  expect(usedTaps({ domain: { devices: { interfaces } }, taps: given })).toEqual([
    {
      ...given[1],
      index: 1,
      mac: '52:54:00:aa:00:01',
      queues: 4,
      podInterface: 'net1',
    },
  ])
  expect(usedTaps({ domain: { devices: { interfaces } } })).toEqual([])
  expect(usedTaps({ domain: {}, taps: given })).toEqual([])
})

test.each<[object, number]>([
  [{ dev: 'tap0', plugin: 'routed' }, 0],
  [{ dev: 'tapabcdefghijkl', plugin: 'a-1' }, 0],
  [{ dev: 'eth0', plugin: 'routed' }, 1],
  [{ dev: 'tap', plugin: 'routed' }, 1],
  [{ dev: 'tapabcdefghijklm', plugin: 'routed' }, 1],
  [{ dev: 'tap0', plugin: '../routed' }, 1],
  [{ dev: 'tap0', plugin: '-' }, 1],
  [{ dev: 'tap0' }, 1],
  [{ dev: 'tap1', plugin: 'redirect', network: 'lab' }, 0],
  [{ dev: 'tap1', plugin: 'redirect', network: 'infra/lab.10' }, 0],
  ...[
    '',
    'a,b',
    'lab@eth0',
    'a/b/c',
    '/lab',
    'infra/',
    '../lab',
    'lab..x',
    'Lab',
    'lab ',
    'lab\n',
    'lab"',
    '[{"name":"lab"}]',
    `${'a'.repeat(64)}/lab`,
  ].map((network): [object, number] => [{ dev: 'tap1', plugin: 'redirect', network }, 1]),
])('of the tap %j, %d fields are invalid', (tap, count) => {
  expect(checkSchema(taps, [tap], 'spec.taps')).toHaveLength(count)
})

test.each<[object, boolean]>([
  [{ plugin: 'routed' }, false],
  [{ plugin: 'nat' }, false],
  [{ plugin: 'redirect', network: 'lab' }, false],
  [{ plugin: 'redirect', network: 'infra/lab' }, true],
  [{ plugin: 'lab' }, true],
])('the tap %j needs a grant: %s', (tap, expected) => {
  expect(isForeign({ dev: 'tap0', plugin: '', ...tap })).toBe(expected)
})
