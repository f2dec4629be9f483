import { expect, test } from 'vitest'
import type { Domain } from './domain/domain.ts'
import { checkSchema } from './schema.ts'
import { taps, usedTaps } from './tap.ts'

const mac = { address: '52:54:00:AA:00:01' }

test('the taps in use are those that an interface of type ethernet names', () => {
  const interfaces: NonNullable<NonNullable<Domain['devices']>['interfaces']> = [
    { type: 'user', target: { dev: 'tap0' }, mac },
    { type: 'ethernet', target: { dev: 'tap1', managed: false }, mac, driver: { queues: '4' } },
    { type: 'ethernet', target: { dev: 'tap9', managed: false }, mac },
    { type: 'ethernet', target: { dev: 'tap2' } },
    { type: 'ethernet', mac },
  ]
  const given = ['tap0', 'tap1', 'tap2'].map((dev) => ({ dev, plugin: 'routed' }))
  expect(usedTaps({ domain: { devices: { interfaces } }, taps: given })).toEqual([
    { dev: 'tap1', plugin: 'routed', index: 1, mac: '52:54:00:aa:00:01', queues: 4 },
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
])('of the tap %j, %d fields are invalid', (tap, count) => {
  expect(checkSchema(taps, [tap], 'spec.taps')).toHaveLength(count)
})
