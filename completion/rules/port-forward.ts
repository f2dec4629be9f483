import type { Domain } from '../../api/domain/domain.ts'
import { isPasst } from '../defaults/port-forward.ts'
import { numberOf } from '../defaults/reading.ts'
import { list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, required } from './finding.ts'
import { example, type Rule, type Subject } from './rule.ts'

type Interface = DeviceOf<'interfaces'>
type PortForward = NonNullable<Interface['portForwards']>[number]

/** Each port is a socket: 4.2 KiB of memory of the pod, and a file descriptor, of which a container may have few. */
const maxForwardedPorts = 4096

const nic = (portForwards: PortForward[]): Domain => ({
  devices: { interfaces: [{ type: 'user', model: { type: 'virtio' }, backend: { type: 'passt' }, portForwards }] },
})

/** A range of ports at the address of the pod on which passt listens. */
interface Listener {
  readonly field: string
  readonly proto: string
  readonly address: string | undefined
  readonly first: number
  readonly last: number
}

function* listenersOf({ domain }: Subject): Iterable<Listener> {
  for (const [at, { proto = 'tcp', address, ranges = [] }] of forwardsOf(domain)) {
    for (const [index, { start, end, exclude }] of ranges.entries()) {
      const first = numberOf(start)
      if (first === undefined || exclude === true) continue
      yield { field: `${at}.ranges[${index}].start`, proto, address, first, last: numberOf(end) ?? first }
    }
  }
}

const forwardsOf = (domain: Domain): (readonly [string, PortForward])[] =>
  list(domain, 'interfaces').flatMap((one, index) =>
    isPasst(one)
      ? (one.portForwards ?? []).map(
          (forward, place) => [`spec.domain.devices.interfaces[${index}].portForwards[${place}]`, forward] as const,
        )
      : [],
  )

const forwardBounded: Rule = {
  id: 'port-forward-bounded',
  description: `A port forward must name its ports, at most ${maxForwardedPorts} in all: passt listens on each of them.`,
  about: ['portForwards'],
  *check(subject) {
    if (subject.isInPod !== true) return
    for (const [at, { ranges = [] }] of forwardsOf(subject.domain)) {
      if (ranges.some(({ exclude }) => exclude !== true)) continue
      const message =
        'must name the ports: to listen on all would take 300 MiB and more files than a container may open'
      yield required(`${at}.ranges`, message, 'e.g. ranges: [{start: 8080}], or spec.ports instead')
    }
    let count = 0
    for (const { field, first, last } of listenersOf(subject)) {
      const before = count
      count += Math.max(0, last - first + 1)
      if (before > maxForwardedPorts || count <= maxForwardedPorts) continue
      const message = `forwards too many ports: with those before it, ${count}; at most ${maxForwardedPorts} are supported`
      yield invalid(field, first, message)
    }
  },
  example: example(nic([{ proto: 'tcp' }]), nic([{ proto: 'tcp', ranges: [{ start: 8080 }] }])),
}

const forwardUnique: Rule = {
  id: 'port-forward-unique',
  description: 'A port of the pod must be forwarded only once: passt does not start if its port is taken.',
  about: ['portForwards'],
  *check(subject) {
    if (subject.isInPod !== true) return
    // Sorted, a range overlaps an earlier one if it overlaps the one that ends last.
    const furthest = new Map<string, Listener>()
    for (const listener of [...listenersOf(subject)].toSorted((one, other) => one.first - other.first)) {
      const { field, proto, address, first, last } = listener
      const rivals = address === undefined ? [proto] : [`${proto} `, `${proto} ${address}`]
      const other = rivals.map((key) => furthest.get(key)).find((one) => one !== undefined && one.last >= first)
      if (other !== undefined) yield duplicate(field, first, `${other.field} already forwards this port`)
      for (const key of [proto, `${proto} ${address ?? ''}`]) {
        if ((furthest.get(key)?.last ?? -1) < last) furthest.set(key, listener)
      }
    }
  },
  example: example(
    nic([{ proto: 'tcp', ranges: [{ start: 80 }, { start: 80, to: 8080 }] }]),
    nic([{ proto: 'tcp', ranges: [{ start: 80 }, { start: 8080 }] }]),
  ),
}

const lastPort = 65_535

const forwardRange: Rule = {
  id: 'port-forward-range',
  description: 'The range of a port forward must not end before it starts, nor lead beyond the last port.',
  about: ['portForwards'],
  *check({ domain }) {
    for (const [at, { ranges = [] }] of forwardsOf(domain)) {
      for (const [index, { start, end, to }] of ranges.entries()) {
        const [first, last, target] = [numberOf(start), numberOf(end), numberOf(to)]
        if (first === undefined || last === undefined) continue
        const field = `${at}.ranges[${index}]`
        if (last < first) yield invalid(`${field}.end`, end, `must not be less than start, which is ${first}`)
        else if (target !== undefined && target + last - first > lastPort) {
          yield invalid(
            `${field}.to`,
            to,
            `must be at most ${lastPort - (last - first)}: the range has ${last - first + 1} ports`,
          )
        }
      }
    }
  },
  example: example(
    nic([{ proto: 'tcp', ranges: [{ start: 90, end: 80 }] }]),
    nic([{ proto: 'tcp', ranges: [{ start: 80, end: 90 }] }]),
  ),
}

const portReach: Rule = {
  id: 'port-reach',
  description: 'A VM with `ports` must have an interface through which clients reach its guest.',
  *check({ spec, domain, isInPod }) {
    if (isInPod !== true || (spec.ports ?? []).length === 0) return
    if (list(domain, 'interfaces').some(isReachable)) return
    const message = 'must not be set: the VM has no interface through which clients reach its guest'
    yield forbidden('spec.ports', undefined, message, 'e.g. spec.domain.devices.interfaces: [{type: user}]')
  },
  example: {
    breaks: { domain: {}, ports: [{ name: 'web', port: 80 }] },
    holds: {
      domain: nic([{ proto: 'tcp', ranges: [{ start: 80 }] }]),
      ports: [{ name: 'web', port: 80 }],
    },
  },
}

/** QEMU's own network stack forwards nothing. */
const isReachable = (one: Interface): boolean => (one.type ?? 'user') !== 'user' || isPasst(one)

export const portForwardRules: readonly Rule[] = [forwardBounded, forwardRange, forwardUnique, portReach]
