import fc from 'fast-check'
import type { DeviceOf } from '../../../completion/defaults/rule.ts'
import { pci, virtioOptions } from './address.ts'
import { any, many, part, rarely, small, weighted, type Json } from './part.ts'

type Interface = DeviceOf<'interfaces'>

const bytes = (text: string, index: number): string => `${text}${index.toString(16).padStart(2, '0')}`

const networkInterface = fc
  .tuple(
    weighted(
      [4, fc.constant({ type: 'user' })],
      [2, fc.constant({ type: 'bridge', source: { bridge: 'br0' } })],
      [1, fc.constant({ type: 'network', source: { network: 'default' } })],
      [1, fc.constant({ type: 'ethernet' })],
      [1, fc.constant({ type: 'direct', source: { dev: 'eth0', mode: 'vepa' } })],
      [1, fc.constant({ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' } })],
    ),
    rarely(
      {},
      {
        model: part({
          type: fc.constantFrom(
            'virtio',
            'e1000',
            'e1000e',
            'rtl8139',
            'ne2k_pci',
            'virtio-non-transitional',
            'virtio-transitional',
            'igb',
          ),
        }),
        driver: part(
          {},
          {
            name: fc.constantFrom('vhost', 'qemu'),
            queues: small(4),
            txmode: any('devices.interfaces.driver.txmode'),
            rxQueueSize: weighted([5, fc.constant(256)], [1, fc.constant(1000)]),
            ...virtioOptions,
          },
        ),
        boot: part({ order: fc.integer({ min: 1, max: 4 }) }),
        link: part({ state: any('devices.interfaces.link.state') }),
        mtu: part({ size: fc.constantFrom(1500, 9000) }),
        rom: fc.oneof(part({ bar: fc.boolean() }), part({ enabled: fc.boolean() })),
        address: pci,
      },
    ),
  )
  .map(([source, rest]) => (index: number): Json => ({
    ...Object(source),
    mac: { address: bytes('52:54:00:12:34:', index) },
    ...rest,
  }))

export const interfaces = many(networkInterface)

/** Keeps driver options only for virtio, and the MTU only if the host end is virtset's. */
export const carefulInterface = ({ driver, mtu, ...one }: Interface): Interface => ({
  ...one,
  ...(driver && (one.model?.type?.startsWith('virtio') ?? false) ? { driver } : {}),
  ...(mtu && one.type !== 'user' && one.type !== 'direct' ? { mtu } : {}),
})
