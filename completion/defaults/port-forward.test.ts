import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import type { Port } from '../../api/port.ts'
import { applied } from '../../test/applied.ts'
import { portForwards } from './port-forward.ts'

const passt = { type: 'user', backend: { type: 'passt' } } as const
const ports: readonly Port[] = [
  { name: 'web', port: 80 },
  { name: 'ssh', port: 22 },
  { name: 'dns', port: 53, protocol: 'UDP' },
]
const forwards = [
  { proto: 'tcp', ranges: [{ start: 80 }, { start: 22 }] },
  { proto: 'udp', ranges: [{ start: 53 }] },
]

type Interfaces = NonNullable<NonNullable<Domain['devices']>['interfaces']>

test.each<[string, Interfaces, unknown]>([
  ['are forwarded by protocol', [passt], [{ ...passt, portForwards: forwards }]],
  [
    'are forwarded by the first interface with passt only',
    [{ type: 'user', backend: { type: 'default' } }, passt, passt],
    [{ type: 'user', backend: { type: 'default' } }, { ...passt, portForwards: forwards }, passt],
  ],
  [
    'are forwarded by vhost-user with passt',
    [{ type: 'vhostuser', backend: { type: 'passt' } }],
    [{ type: 'vhostuser', backend: { type: 'passt' }, portForwards: forwards }],
  ],
  [
    'are not forwarded again',
    [
      passt,
      {
        ...passt,
        portForwards: [
          { proto: 'tcp', ranges: [{ start: '20', end: '30', to: 1020 }] },
          {
            proto: 'udp',
            ranges: [
              { start: 50, end: 60 },
              { start: 53, exclude: true },
            ],
          },
        ],
      },
    ],
    [
      {
        ...passt,
        portForwards: [
          { proto: 'tcp', ranges: [{ start: 80 }] },
          { proto: 'udp', ranges: [{ start: 53 }] },
        ],
      },
      {
        ...passt,
        portForwards: [
          { proto: 'tcp', ranges: [{ start: '20', end: '30', to: 1020 }] },
          {
            proto: 'udp',
            ranges: [
              { start: 50, end: 60 },
              { start: 53, exclude: true },
            ],
          },
        ],
      },
    ],
  ],
  ['need no forward with a tap', [{ type: 'ethernet' }], [{ type: 'ethernet' }]],
])('ports %s', (_, interfaces, expected) => {
  const complete = (given: Domain) => applied([portForwards], given, { isOurs: true, ports })
  const domain = complete({ devices: { interfaces } })
  expect(domain.devices?.interfaces).toEqual(expected)
  expect(complete(domain)).toEqual(domain)
})

test('an excluded port and those beside a range are forwarded', () => {
  const given = {
    proto: 'tcp',
    ranges: [{ start: 20, end: 30 }, { start: 22, exclude: true }, { start: 70_000 }],
  } as const
  const asked = [19, 20, 21, 22, 23, 30, 31].map((port) => ({ name: `p${port}`, port }))
  const domain = { devices: { interfaces: [{ ...passt, portForwards: [{ ...given, ranges: [...given.ranges] }] }] } }
  const { devices } = applied([portForwards], domain, { isOurs: true, ports: asked })
  expect(devices?.interfaces?.[0]?.portForwards?.slice(1)).toEqual([
    { proto: 'tcp', ranges: [{ start: 19 }, { start: 22 }, { start: 31 }] },
  ])
})

test('many ports beside many ranges take little time', () => {
  const ranges = Array.from({ length: 20_000 }, (_, index) => ({ start: 20_000 + index }))
  const many = Array.from({ length: 8000 }, (_, index) => ({ name: `p${index}`, port: 1 + index }))
  const domain = { devices: { interfaces: [{ ...passt, portForwards: [{ proto: 'tcp' as const, ranges }] }] } }
  const start = process.cpuUsage().user
  applied([portForwards], domain, { isOurs: true, ports: many })
  expect(process.cpuUsage().user - start).toBeLessThan(1_000_000)
})

test('libvirt itself forwards none', () => {
  expect(applied([portForwards], { devices: { interfaces: [passt] } }, { ports })).toEqual({
    devices: { interfaces: [passt] },
  })
})
