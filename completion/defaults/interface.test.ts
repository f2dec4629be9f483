import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import {
  addressFamily,
  interfaceBackend,
  interfaceMode,
  interfaceModel,
  interfaceType,
  vhostuserMode,
} from './interface.ts'

test.each<[string, Domain, Domain]>([
  [
    'an empty one is an RTL8139 in QEMU’s user network',
    { devices: { interfaces: [{}] } },
    { devices: { interfaces: [{ type: 'user', model: { type: 'rtl8139' } }] } },
  ],
  ['a host device has no model', { devices: { interfaces: [{ type: 'hostdev' }] } }, {}],
  [
    'vDPA is virtio',
    { devices: { interfaces: [{ type: 'vdpa' }] } },
    { devices: { interfaces: [{ type: 'vdpa', model: { type: 'virtio' } }] } },
  ],
  [
    'vhost-user is virtio, and QEMU connects',
    { devices: { interfaces: [{ type: 'vhostuser', source: { path: '/s' } }] } },
    {
      devices: {
        interfaces: [
          { type: 'vhostuser', source: { path: '/s', type: 'unix', mode: 'client' }, model: { type: 'virtio' } },
        ],
      },
    },
  ],
  [
    'a direct one has mode vepa',
    { devices: { interfaces: [{ type: 'direct', model: { type: 'virtio' }, source: { dev: 'eth0' } }] } },
    { devices: { interfaces: [{ type: 'direct', model: { type: 'virtio' }, source: { dev: 'eth0', mode: 'vepa' } }] } },
  ],
  [
    'the format of an address determines its family',
    { devices: { interfaces: [{ type: 'hostdev', ips: [{ address: '10.0.0.1' }, { address: 'fd00::1' }] }] } },
    {
      devices: {
        interfaces: [
          {
            type: 'hostdev',
            ips: [
              { address: '10.0.0.1', family: 'ipv4' },
              { address: 'fd00::1', family: 'ipv6' },
            ],
          },
        ],
      },
    },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([interfaceType, interfaceModel, interfaceMode, vhostuserMode, addressFamily], domain)).toEqual({
    ...domain,
    ...expected,
  })
})

describe('in a pod, an interface', () => {
  type Interfaces = NonNullable<NonNullable<Domain['devices']>['interfaces']>
  const passt = { type: 'user', backend: { type: 'passt' }, model: { type: 'virtio' } }
  test.each<[string, Interfaces[number], object]>([
    ['without a type is virtio, connected by passt', {}, passt],
    ['keeps its model', { model: { type: 'e1000e' } }, { ...passt, model: { type: 'e1000e' } }],
    [
      'keeps the options of its backend',
      { backend: { logFile: '/l' } },
      { ...passt, backend: { logFile: '/l', type: 'passt' } },
    ],
    [
      'with backend default is as in libvirt',
      { backend: { type: 'default' } },
      { type: 'user', backend: { type: 'default' }, model: { type: 'rtl8139' } },
    ],
    ['of another type is as in libvirt', { type: 'ethernet' }, { type: 'ethernet', model: { type: 'rtl8139' } }],
  ])('%s', (_, given, expected) => {
    const rules = [interfaceType, interfaceBackend, interfaceModel]
    expect(applied(rules, { devices: { interfaces: [given] } }, { isOurs: true })).toEqual({
      devices: { interfaces: [expected] },
    })
  })
})
