import type { Domain } from '../../api/domain/domain.ts'
import { isHostUsbCard } from '../defaults/interface.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, notFound, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Interface = DeviceOf<'interfaces'>

const nic = (more: Interface): Domain => ({ devices: { interfaces: [{ type: 'user', ...more }] } })

const isVirtio = ({ model }: Interface): boolean => model?.type?.toLowerCase().startsWith('virtio') === true

/** The fields of `source` that each type of interface requires. */
const sources: {
  readonly [type: string]: readonly (
    | 'bridge'
    | 'network'
    | 'dev'
    | 'name'
    | 'port'
    | 'ipAddress'
    | 'address'
    | 'switchid'
  )[]
} = {
  bridge: ['bridge'],
  network: ['network'],
  direct: ['dev'],
  vdpa: ['dev'],
  internal: ['name'],
  server: ['port'],
  client: ['ipAddress', 'port'],
  mcast: ['ipAddress', 'port'],
  udp: ['ipAddress', 'port'],
  hostdev: ['address'],
  vds: ['switchid'],
}

const interfaceSource = eachDevice('interfaces')(
  'interface-source',
  'An interface must have the `source` fields that its type requires.',
  (one, at) => {
    const { type = 'user', source, backend } = one
    const findings: Finding[] = (sources[type] ?? [])
      .filter(
        (key) => (source?.[key] === undefined || source[key] === '') && !(key === 'address' && isHostUsbCard(one)),
      )
      .map((key) => required(`${at}.source.${key}`, `must be set for type ${type}`))
    const { address } = source ?? {}
    if (type === 'hostdev' && typeof address === 'object' && address.type === undefined)
      findings.push(required(`${at}.source.address.type`, 'must be set for type hostdev', 'e.g. pci'))
    if (type === 'udp' && source?.local === undefined)
      findings.push(required(`${at}.source.local`, 'must be set for type udp'))
    if (type === 'vhostuser' && backend?.type !== 'passt') {
      if (source?.path === undefined)
        findings.push(required(`${at}.source.path`, 'must be set for type vhostuser: the path of the socket'))
      if (source?.mode !== 'client' && source?.mode !== 'server') {
        findings.push(required(`${at}.source.mode`, 'must be client or server for type vhostuser'))
      }
      if (source?.reconnect !== undefined && source.mode === 'server') {
        findings.push(
          forbidden(`${at}.source.reconnect`, undefined, 'can only be set for mode client: a server does not connect'),
        )
      }
    }
    return findings
  },
  example(nic({ type: 'bridge' }), nic({ type: 'bridge', source: { bridge: 'br0' } })),
)

const isPowerOfTwo = (value: number): boolean => (value & (value - 1)) === 0

const interfaceDriver = eachDevice('interfaces')(
  'interface-driver',
  'Queue sizes must be powers of two; virtio options can only be set for virtio models.',
  (one, at) => {
    const { driver } = one
    const findings: Finding[] = []
    if (one.type !== 'hostdev' && (one.model?.type === undefined || isVirtio(one))) {
      for (const key of ['rxQueueSize', 'txQueueSize'] as const) {
        const size = numberOf(driver?.[key])
        if (size !== undefined && !isPowerOfTwo(size))
          findings.push(invalid(`${at}.driver.${key}`, size, 'must be a power of two'))
      }
      return findings
    }
    if (one.type === 'hostdev' && (driver?.name === 'vhost' || driver?.name === 'qemu'))
      findings.push(invalid(`${at}.driver.name`, driver.name, 'must be vfio for type hostdev'))
    for (const key of ['iommu', 'ats', 'packed', 'pagePerVq'] as const) {
      if (driver?.[key] === undefined) continue
      findings.push(
        forbidden(
          `${at}.driver.${key}`,
          driver[key],
          `can only be set for virtio models, not for ${one.model?.type ?? 'a device of the host'}`,
        ),
      )
    }
    return findings
  },
  example(
    nic({ model: { type: 'virtio' }, driver: { rxQueueSize: 511 } }),
    nic({ model: { type: 'virtio' }, driver: { rxQueueSize: 512 } }),
  ),
)

const interfaceMac = eachDevice('interfaces')(
  'interface-mac',
  'A MAC address must be a unicast address: the lowest bit of its first byte, which marks multicast, must not be set.',
  ({ mac }, at) => {
    const first = Number.parseInt(mac?.address?.split(':')[0] ?? '0', 16)
    if ((first & 1) === 0) return []
    return [
      invalid(
        `${at}.mac.address`,
        mac?.address,
        'is a multicast address; the first byte must be even',
        'e.g. 52:54:00:12:34:56',
      ),
    ]
  },
  example(nic({ mac: { address: '01:54:00:12:34:56' } }), nic({ mac: { address: '02:54:00:12:34:56' } })),
)

const interfaceModel = eachDevice('interfaces')(
  'interface-model',
  'Interfaces of type vdpa and vhostuser must have a virtio model.',
  (one, at) =>
    (one.type === 'vdpa' || one.type === 'vhostuser') && !isVirtio(one)
      ? [invalid(`${at}.model.type`, one.model?.type, `must be virtio for type ${one.type}`)]
      : [],
  example(
    nic({ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' }, model: { type: 'e1000' } }),
    nic({ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' }, model: { type: 'virtio' } }),
  ),
)

const interfaceTeaming: Rule = {
  id: 'interface-teaming',
  description:
    'A transient interface must name the alias of an existing interface; a persistent one must have a virtio model and name none.',
  about: ['teaming'],
  *check({ domain }) {
    const interfaces = list(domain, 'interfaces')
    for (const [index, one] of interfaces.entries()) {
      const field = `spec.domain.devices.interfaces[${index}].teaming.type`
      const kind = one.teaming?.type
      if (kind === 'persistent' && !isVirtio(one)) yield invalid(field, kind, 'is only supported for model virtio')
      if (kind === 'transient' && one.type !== 'hostdev' && one.type !== 'network')
        yield invalid(field, kind, 'is only supported for type hostdev and network')
      if (kind === 'persistent')
        yield* forbidEach(
          one,
          `spec.domain.devices.interfaces[${index}]`,
          ['teaming.persistent'],
          'must not be set for type persistent, only for transient',
        )
    }
    const aliases = new Set(interfaces.map(({ alias }) => alias?.name))
    for (const key of ['interfaces', 'hostdevs'] as const) {
      for (const [index, { teaming }] of list(domain, key).entries()) {
        if (teaming?.type !== 'transient') continue
        const field = `spec.domain.devices.${key}[${index}].teaming.persistent`
        if (teaming.persistent === undefined)
          yield required(field, 'must be set: the alias of the persistent interface')
        else if (!aliases.has(teaming.persistent))
          yield notFound(field, teaming.persistent, 'no interface has this alias')
      }
    }
  },
  example: example(
    nic({ teaming: { type: 'transient', persistent: 'ua-other' } }),
    nic({ model: { type: 'virtio' }, alias: { name: 'ua-net' }, teaming: { type: 'persistent' } }),
  ),
}

export const interfaceRules: readonly Rule[] = [
  interfaceSource,
  interfaceDriver,
  interfaceMac,
  interfaceModel,
  interfaceTeaming,
]
