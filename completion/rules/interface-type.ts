import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Interface = DeviceOf<'interfaces'>

const nic = (more: Interface): Domain => ({ devices: { interfaces: [{ type: 'user', ...more }] } })

const taps = ['network', 'bridge', 'ethernet']

/** Fields that only some types support, because they configure the host device or process that forwards packets. */
const typesOf: { readonly [field: string]: readonly string[] } = {
  filterref: taps,
  mtu: [...taps, 'vhostuser'],
  coalesce: ['network', 'bridge'],
  virtualport: ['network', 'bridge', 'direct', 'hostdev'],
  ips: ['user'],
  'source.ips': ['ethernet'],
  'source.routes': ['ethernet'],
  vlan: ['network', 'bridge', 'ethernet', 'direct', 'hostdev', 'internal', 'vds'],
  'bandwidth.inbound.floor': ['network'],
}

const limited = Object.entries(typesOf)

const interfaceType = eachDevice('interfaces')(
  'interface-type',
  'Filter, MTU, coalescing, VLANs, virtual port, addresses and routes can only be set for types of interface that support them.',
  function* (one, at) {
    const { type = 'user', port, target, backend } = one
    for (const [field, types] of limited) {
      if (types.includes(type) || (field === 'ips' && type === 'vhostuser' && backend?.type === 'passt')) continue
      yield* forbidEach(one, at, [field], `must not be set for type ${type}, only for ${types.join(', ')}`)
    }
    if ((one.routes?.length ?? 0) > 0)
      yield forbidden(`${at}.routes`, undefined, 'must not be set: QEMU does not support routes')
    if (port?.isolated === true && type !== 'network' && type !== 'bridge')
      yield forbidden(`${at}.port.isolated`, true, `must not be set for type ${type}, only for network, bridge`)
    if (port?.isolated === true && one.virtualport?.type === 'openvswitch')
      yield forbidden(`${at}.port.isolated`, true, 'must not be set for virtualport type openvswitch')
    if (target?.managed === false && type !== 'ethernet')
      yield forbidden(`${at}.target.managed`, false, `must not be set for type ${type}, only for ethernet`)
  },
  example(
    nic({ type: 'user', mtu: { size: 1500 } }),
    nic({ type: 'bridge', source: { bridge: 'br0' }, mtu: { size: 1500 } }),
  ),
)

const interfacePasst = eachDevice('interfaces')(
  'interface-passt',
  'Port forwarding requires the passt backend, which supports the types user and vhostuser.',
  ({ type, backend, portForwards = [] }, at) => {
    const findings: Finding[] = []
    const canPasst = type === 'user' || type === 'vhostuser'
    if (backend?.type === 'passt' && !canPasst) {
      findings.push(invalid(`${at}.backend.type`, 'passt', 'is only supported for type user and vhostuser'))
    }
    if (portForwards.length > 0 && !(canPasst && backend?.type === 'passt')) {
      const message = 'can only be set with backend passt, for type user and vhostuser'
      const suggestion = canPasst ? 'backend: {type: passt}' : undefined
      findings.push(forbidden(`${at}.portForwards`, undefined, message, suggestion))
    }
    for (const [index, { ranges = [] }] of portForwards.entries()) {
      for (const [place, { start, end, to, exclude }] of ranges.entries()) {
        if (start !== undefined || (end ?? to ?? exclude) === undefined) continue
        findings.push(required(`${at}.portForwards[${index}].ranges[${place}].start`, 'must be set for a range'))
      }
    }
    return findings
  },
  example(
    nic({ portForwards: [{ proto: 'tcp', ranges: [{ start: 8080, to: 80 }] }] }),
    nic({ backend: { type: 'passt' }, portForwards: [{ proto: 'tcp', ranges: [{ start: 8080, to: 80 }] }] }),
  ),
)

const lastPrefix = { ipv4: 32, ipv6: 128 } as const

const interfaceIps = eachDevice('interfaces', 'ips')(
  'interface-ips',
  'Address, peer and prefix must be of one family; a user network must have at most one address of each family and no peer.',
  ({ type, ips = [], source, backend }, at) => {
    const findings: Finding[] = []
    const given = [...placed(ips, `${at}.ips`), ...placed(source?.ips ?? [], `${at}.source.ips`)]
    for (const [field, { address, peer, prefix, family = familyOf(address) }] of given) {
      findings.push(...familyFault(`${field}.address`, address, family), ...familyFault(`${field}.peer`, peer, family))
      findings.push(...prefixFault(`${field}.prefix`, prefix, family))
    }
    const seen = new Set<string>()
    const isOffered = type === 'user' || backend?.type === 'passt'
    for (const [field, { address, family = familyOf(address), prefix, peer }] of placed(ips, `${at}.ips`)) {
      const length = numberOf(prefix) ?? 0
      if (type === 'user' && backend?.type !== 'passt' && length > 0 && length <= lastPrefix[family]) {
        if (family === 'ipv4' && (length < 4 || length > 27))
          findings.push(invalid(`${field}.prefix`, length, 'must be from 4 to 27: QEMU itself uses 15 addresses'))
        if (family === 'ipv6' && length !== 64) findings.push(invalid(`${field}.prefix`, length, 'must be 64 for ipv6'))
      }
      if (!isOffered) continue
      if (seen.has(family))
        findings.push(invalid(`${field}.family`, family, 'already has an address; only one per family is supported'))
      if (peer !== undefined) findings.push(forbidden(`${field}.peer`, peer, `must not be set for type ${type}`))
      seen.add(family)
    }
    return findings
  },
  example(
    nic({ ips: [{ address: '10.0.0.1', family: 'ipv4', prefix: 33 }] }),
    nic({ ips: [{ address: '10.0.0.1', family: 'ipv4', prefix: 24 }] }),
  ),
)

const interfaceRoutes = eachDevice('interfaces', 'routes')(
  'interface-routes',
  'Network, router and prefix of a route must be of its family, which is ipv4 if absent; only ipv4 has a netmask, and not beside a prefix.',
  ({ source }, at) =>
    placed(source?.routes ?? [], `${at}.source.routes`).flatMap(
      ([field, { family = 'ipv4', address, gateway, prefix, netmask }]) => [
        ...familyFault(`${field}.address`, address, family),
        ...familyFault(`${field}.gateway`, gateway, family),
        ...prefixFault(`${field}.prefix`, prefix, family),
        ...(netmask === undefined ? [] : netmaskFault(`${field}.netmask`, netmask, prefix, family)),
      ],
    ),
  example(
    nic({ type: 'ethernet', source: { routes: [{ address: '10.0.0.0', prefix: 33, gateway: '10.0.0.1' }] } }),
    nic({ type: 'ethernet', source: { routes: [{ address: '10.0.0.0', prefix: 24, gateway: '10.0.0.1' }] } }),
  ),
)

/** Each item with its path. */
const placed = <T>(items: readonly T[], at: string): (readonly [string, T])[] =>
  items.map((item, index) => [`${at}[${index}]`, item] as const)

type Family = keyof typeof lastPrefix

const familyOf = (address: string | undefined): Family => (address?.includes(':') ? 'ipv6' : 'ipv4')

const familyFault = (field: string, address: string | undefined, family: Family): readonly Finding[] =>
  address === undefined || familyOf(address) === family
    ? []
    : [
        invalid(
          field,
          address,
          `is not an ${family === 'ipv4' ? 'IPv4' : 'IPv6'} address`,
          `family: ${familyOf(address)}`,
        ),
      ]

const prefixFault = (field: string, prefix: number | string | undefined, family: Family): readonly Finding[] => {
  const length = numberOf(prefix) ?? 0
  return length > lastPrefix[family]
    ? [invalid(field, length, `must be at most ${lastPrefix[family]} for ${family}`)]
    : []
}

function netmaskFault(
  field: string,
  netmask: string,
  prefix: number | string | undefined,
  family: Family,
): readonly Finding[] {
  if (family === 'ipv6') return [forbidden(field, netmask, 'must not be set for family ipv6, only prefix')]
  if (prefix !== undefined) return [forbidden(field, netmask, 'must not be set together with prefix')]
  return familyOf(netmask) === 'ipv6' ? [invalid(field, netmask, 'must be an IPv4 mask', 'e.g. 255.255.255.0')] : []
}

const withQueues = ['network', 'bridge', 'ethernet', 'direct', 'vhostuser', 'vdpa', 'hostdev']

const interfaceQueues = eachDevice('interfaces', 'queues')(
  'interface-queues',
  'Several queues are only supported for types of interface whose queues are served by the kernel or another process.',
  ({ type = 'user', driver }, at) => {
    const count = numberOf(driver?.queues) ?? 0
    return count > 1 && !withQueues.includes(type)
      ? [
          invalid(
            `${at}.driver.queues`,
            count,
            `must be 1 for type ${type}; only ${withQueues.join(', ')} support several`,
          ),
        ]
      : []
  },
  example(
    nic({ type: 'user', model: { type: 'virtio' }, driver: { queues: 2 } }),
    nic({ type: 'user', model: { type: 'virtio' }, driver: { queues: 1 } }),
  ),
)

/** The parameters that each type of virtual port supports; libvirt generates some of the required ones. */
const portParameters: {
  readonly [type: string]: { readonly all: readonly string[]; readonly required: readonly string[] }
} = {
  '802.1Qbg': {
    all: ['managerid', 'typeid', 'typeidversion', 'instanceid'],
    required: ['managerid', 'typeid', 'typeidversion'],
  },
  '802.1Qbh': { all: ['profileid'], required: ['profileid'] },
  openvswitch: { all: ['interfaceid', 'profileid'], required: [] },
  midonet: { all: ['interfaceid'], required: ['interfaceid'] },
}
const everyParameter = [...new Set(Object.values(portParameters).flatMap(({ all }) => all))]

const interfaceVirtualport = eachDevice('interfaces', 'virtualport')(
  'interface-virtualport',
  'A virtual port must have the parameters that its type requires, and no others.',
  function* ({ virtualport }, at) {
    const { type, parameters = {} } = virtualport ?? {}
    const supported = portParameters[type ?? '']
    if (!supported) return
    const field = `${at}.virtualport.parameters`
    for (const key of supported.required) {
      if (!isSet(parameters, key)) yield required(`${field}.${key}`, `must be set for type ${type}`)
    }
    const others = everyParameter.filter((key) => !supported.all.includes(key) && isSet(parameters, key))
    yield* forbidEach(parameters, field, others, `must not be set for type ${type}`)
  },
  example(
    nic({ type: 'bridge', source: { bridge: 'br0' }, virtualport: { type: 'openvswitch', parameters: { typeid: 1 } } }),
    nic({ type: 'bridge', source: { bridge: 'br0' }, virtualport: { type: 'openvswitch', parameters: {} } }),
  ),
)

/** An empty parameter counts as missing. */
const isSet = (parameters: object, key: string): boolean => (Reflect.get(parameters, key) ?? '') !== ''

export const interfaceTypeRules: readonly Rule[] = [
  interfaceType,
  interfacePasst,
  interfaceIps,
  interfaceRoutes,
  interfaceQueues,
  interfaceVirtualport,
]
