import type { Domain } from '../../api/domain/domain.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Interface = DeviceOf<'interfaces'>

const nic = (more: Interface): Domain => ({ devices: { interfaces: [{ type: 'user', ...more }] } })

const taps = ['network', 'bridge', 'ethernet']

/** Fields that only some types have: a device of the kernel, or who forwards packets, is needed for each. */
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
  'A filter, an MTU, coalescing, VLANs, a virtual port and addresses are for types of interface that have them.',
  function* (one, at) {
    const { type, port, target } = one
    if (type === undefined) return
    for (const [field, types] of limited) {
      if (types.includes(type)) continue
      yield* forbidEach(one, at, [field], `may not be given for type ${type}, only for ${types.join(', ')}`)
    }
    if ((one.routes?.length ?? 0) > 0) yield forbidden(`${at}.routes`, undefined, 'may not be given: QEMU sets none')
    if (port?.isolated === true && type !== 'network' && type !== 'bridge')
      yield forbidden(`${at}.port.isolated`, true, `may not be given for type ${type}, only for network, bridge`)
    if (target?.managed === false && type !== 'ethernet')
      yield forbidden(`${at}.target.managed`, false, `may not be given for type ${type}, only for ethernet`)
  },
  example(
    nic({ type: 'user', mtu: { size: 1500 } }),
    nic({ type: 'bridge', source: { bridge: 'br0' }, mtu: { size: 1500 } }),
  ),
)

const interfacePasst = eachDevice('interfaces')(
  'interface-passt',
  'Ports are forwarded by passt, which serves types user and vhostuser.',
  ({ type, backend, portForwards = [] }, at) => {
    const findings: Finding[] = []
    const canPasst = type === 'user' || type === 'vhostuser'
    if (backend?.type === 'passt' && !canPasst) {
      findings.push(invalid(`${at}.backend.type`, 'passt', 'is possible for type user and vhostuser only'))
    }
    if (portForwards.length > 0 && !(canPasst && backend?.type === 'passt')) {
      const message = 'may be given with backend passt only, for type user and vhostuser'
      const suggestion = canPasst ? 'backend: {type: passt}' : undefined
      findings.push(forbidden(`${at}.portForwards`, undefined, message, suggestion))
    }
    for (const [index, { ranges = [] }] of portForwards.entries()) {
      for (const [place, { start, end, to, exclude }] of ranges.entries()) {
        if (start !== undefined || (end ?? to ?? exclude) === undefined) continue
        findings.push(required(`${at}.portForwards[${index}].ranges[${place}].start`, 'must be given for a range'))
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
  'The guest is offered one address of each family by a user network, with a prefix that the family has and no peer.',
  ({ type, ips = [], backend }, at) => {
    const findings: Finding[] = []
    const seen = new Set<string>()
    for (const [index, { family = 'ipv4', prefix, peer }] of ips.entries()) {
      const field = `${at}.ips[${index}]`
      const length = numberOf(prefix)
      if (length !== undefined && length > lastPrefix[family]) {
        findings.push(invalid(`${field}.prefix`, length, `must be at most ${lastPrefix[family]} for ${family}`))
      } else if (type === 'user' && backend?.type !== 'passt' && length !== undefined && length > 0) {
        if (family === 'ipv4' && (length < 4 || length > 27))
          findings.push(
            invalid(`${field}.prefix`, length, 'must be from 4 to 27, for QEMU has 15 addresses of its own'),
          )
        if (family === 'ipv6' && length !== 64) findings.push(invalid(`${field}.prefix`, length, 'must be 64 for ipv6'))
      }
      if (type !== 'user') continue
      if (seen.has(family))
        findings.push(invalid(`${field}.family`, family, 'has an address already: one of each family is possible'))
      if (peer !== undefined) findings.push(forbidden(`${field}.peer`, peer, 'may not be given for type user'))
      seen.add(family)
    }
    return findings
  },
  example(
    nic({ ips: [{ address: '10.0.0.1', family: 'ipv4', prefix: 33 }] }),
    nic({ ips: [{ address: '10.0.0.1', family: 'ipv4', prefix: 24 }] }),
  ),
)

const withQueues = ['network', 'bridge', 'ethernet', 'direct', 'vhostuser', 'vdpa', 'hostdev']

const interfaceQueues = eachDevice('interfaces', 'queues')(
  'interface-queues',
  'Several queues are for types of interface of which the kernel or another process serves each queue.',
  ({ type, driver }, at) => {
    const count = numberOf(driver?.queues) ?? 0
    return count > 1 && type !== undefined && !withQueues.includes(type)
      ? [invalid(`${at}.driver.queues`, count, `must be 1 for type ${type}: several are for ${withQueues.join(', ')}`)]
      : []
  },
  example(
    nic({ type: 'user', model: { type: 'virtio' }, driver: { queues: 2 } }),
    nic({ type: 'user', model: { type: 'virtio' }, driver: { queues: 1 } }),
  ),
)

export const interfaceTypeRules: readonly Rule[] = [interfaceType, interfacePasst, interfaceIps, interfaceQueues]
