import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { interfaceTap } from './tap.ts'

type Interfaces = NonNullable<NonNullable<Domain['devices']>['interfaces']>

const taps = [
  { dev: 'tap0', plugin: 'routed' },
  { dev: 'tap1', plugin: 'example' },
]
const on = (dev: string) => ({ type: 'ethernet', target: { dev, managed: false }, model: { type: 'virtio' } })

test.each<[string, Interfaces, unknown]>([
  ['connect interfaces in their order', [{}, {}, {}], [on('tap0'), on('tap1'), {}]],
  ['connect the interface that names them', [{ target: { dev: 'tap1' } }, {}], [on('tap1'), on('tap0')]],
  [
    'complete an interface of type ethernet that names them',
    [{ type: 'ethernet', target: { dev: 'tap0' }, model: { type: 'e1000e' } }],
    [{ type: 'ethernet', target: { dev: 'tap0', managed: false }, model: { type: 'e1000e' } }],
  ],
  [
    'leave interfaces that state how they are connected',
    [{ type: 'user' }, { backend: { type: 'passt' } }, { portForwards: [{ proto: 'tcp' }] }, { source: { dev: 'a' } }],
    [{ type: 'user' }, { backend: { type: 'passt' } }, { portForwards: [{ proto: 'tcp' }] }, { source: { dev: 'a' } }],
  ],
  [
    'leave an interface of another type that names them',
    [{ type: 'bridge', target: { dev: 'tap0' } }],
    [{ type: 'bridge', target: { dev: 'tap0' } }],
  ],
  ['leave an interface that names another device', [{ target: { dev: 'tap9' } }], [{ target: { dev: 'tap9' } }]],
])('taps %s', (_, interfaces, expected) => {
  const result = applied([interfaceTap], { devices: { interfaces } }, { isOurs: true, taps })
  expect(result.devices?.interfaces).toEqual(expected)
})

test('without taps, and where libvirt judges, interfaces stay as they are', () => {
  const domain = { devices: { interfaces: [{}] } }
  expect(applied([interfaceTap], domain, { isOurs: true })).toEqual(domain)
  expect(applied([interfaceTap], domain, { taps })).toEqual(domain)
})
