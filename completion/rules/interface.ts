import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { forbidden, invalid, notFound, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Interface = DeviceOf<'interfaces'>

const nic = (more: Interface): Domain => ({ devices: { interfaces: [{ type: 'user', ...more }] } })

const isVirtio = ({ model }: Interface): boolean => model?.type?.toLowerCase().startsWith('virtio') === true

/** Without which field of `source` an interface of each type leads nowhere. */
const sources: {
  readonly [type: string]: readonly ('bridge' | 'network' | 'dev' | 'name' | 'port' | 'ipAddress' | 'address')[]
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
}

const interfaceSource = eachDevice('interfaces')(
  'interface-source',
  'An interface says to what it is connected, as its type demands.',
  ({ type, source, backend }, at) => {
    if (type === undefined)
      return [required(`${at}.type`, 'must be given: what the interface is connected to', 'e.g. user')]
    const findings: Finding[] = (sources[type] ?? [])
      .filter((key) => source?.[key] === undefined || source[key] === '')
      .map((key) => required(`${at}.source.${key}`, `must be given for type ${type}`))
    if (type === 'udp' && source?.local === undefined)
      findings.push(required(`${at}.source.local`, 'must be given for type udp'))
    if (type === 'vhostuser' && backend?.type !== 'passt') {
      if (source?.path === undefined)
        findings.push(required(`${at}.source.path`, 'must be given for type vhostuser: the socket'))
      if (source?.mode !== 'client' && source?.mode !== 'server') {
        findings.push(required(`${at}.source.mode`, 'must be client or server for type vhostuser'))
      }
      if (source?.reconnect !== undefined && source.mode === 'server') {
        findings.push(
          forbidden(
            `${at}.source.reconnect`,
            undefined,
            'may be given for mode client only: a server does not connect',
          ),
        )
      }
    }
    return findings
  },
  example(nic({ type: 'bridge' }), nic({ type: 'bridge', source: { bridge: 'br0' } })),
)

const isPowerOfTwo = (value: number): boolean => value > 0 && (value & (value - 1)) === 0

const interfaceDriver = eachDevice('interfaces')(
  'interface-driver',
  'Queues have a power of two entries; the options of virtio are for virtio models.',
  (one, at) => {
    const { driver } = one
    const findings: Finding[] = []
    if (one.type !== 'hostdev' && (one.model?.type === undefined || isVirtio(one))) {
      for (const key of ['rxQueueSize', 'txQueueSize'] as const) {
        const size = numberOf(driver?.[key])
        if (size !== undefined && size !== 0 && !isPowerOfTwo(size))
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
          `may be given for virtio models only, not for ${one.model?.type ?? 'a device of the host'}`,
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
  'A MAC address is that of one card: the lowest bit of its first byte, which means several, is not set.',
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
  'Interfaces of type vdpa are virtio.',
  (one, at) =>
    one.model?.type !== undefined && one.type === 'vdpa' && !isVirtio(one)
      ? [invalid(`${at}.model.type`, one.model.type, 'must be virtio for type vdpa')]
      : [],
  example(
    nic({ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' }, model: { type: 'e1000' } }),
    nic({ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' }, model: { type: 'virtio' } }),
  ),
)

const interfaceTeaming: Rule = {
  id: 'interface-teaming',
  description: 'An interface that stands in for another names the alias of one that is there.',
  about: ['teaming'],
  *check({ domain }) {
    const aliases = new Set(list(domain, 'interfaces').map(({ alias }) => alias?.name))
    for (const key of ['interfaces', 'hostdevs'] as const) {
      for (const [index, one] of list(domain, key).entries()) {
        const { teaming, type } = one
        const at = `spec.domain.devices.${key}[${index}].teaming`
        if (
          teaming?.type === 'persistent' &&
          key === 'interfaces' &&
          !isVirtio('model' in one && typeof one.model === 'object' ? { model: one.model } : {})
        ) {
          yield invalid(`${at}.type`, 'persistent', 'is possible for model virtio only')
        }
        if (teaming?.type !== 'transient') continue
        if (key === 'interfaces' && type !== 'hostdev' && type !== 'network')
          yield invalid(`${at}.type`, 'transient', 'is possible for type hostdev and network only')
        const field = `${at}.persistent`
        if (teaming.persistent === undefined)
          yield required(field, 'must be given: the alias of the interface that stays')
        else if (!aliases.has(teaming.persistent))
          yield notFound(field, teaming.persistent, 'is the alias of no interface')
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
