import { protocolOf } from '../../api/port.ts'
import { numberOf } from './reading.ts'
import { appendTo, list, type DeviceOf, type Rule } from './rule.ts'

type Interface = DeviceOf<'interfaces'>
type PortForward = NonNullable<Interface['portForwards']>[number]

/** Whether passt connects the interface, so that its forwards bind ports of the pod. */
export const isPasst = ({ type, backend }: Interface): boolean =>
  backend?.type === 'passt' && (type === 'user' || type === 'vhostuser')

export const portForwards: Rule = {
  name: 'port-forwards',
  description:
    "The first interface with backend passt forwards those of the VM's `ports` that no interface forwards yet. libvirt itself forwards none.",
  about: ['interfaces'],
  *apply(domain, { isOurs, ports = [] }) {
    const served = list(domain, 'interfaces').filter(isPasst)
    const [first] = served
    if (first === undefined || isOurs !== true) return
    const forwards = served.flatMap(({ portForwards: given = [] }) => given)
    for (const protocol of ['TCP', 'UDP'] as const) {
      const asked = ports.filter((port) => protocolOf(port) === protocol)
      if (asked.length === 0) continue
      const isForwarded = forwarded(forwards.filter(({ proto = 'tcp' }) => proto.toUpperCase() === protocol))
      const ranges = asked.filter(({ port }) => !isForwarded(port)).map(({ port }) => ({ start: port }))
      if (ranges.length > 0) yield appendTo(first, 'portForwards', { proto: protocol.toLowerCase(), ranges })
    }
  },
}

const maxPort = 65_535

/** Whether one of the forwards listens on a port at the address of the pod. Takes O(n log n) for n ranges. */
function forwarded(forwards: readonly PortForward[]): (port: number) => boolean {
  const changes = new Int32Array(maxPort + 2)
  for (const [from, to] of forwards.flatMap((forward) => [...spansOf(forward)])) {
    changes[from] = (changes[from] ?? 0) + 1
    changes[to] = (changes[to] ?? 0) - 1
  }
  let listeners = 0
  const counts = changes.map((change) => (listeners += change))
  return (port) => (counts[port] ?? 0) > 0
}

/** The ports on which the forward listens, each span without its end: those of its ranges, less those it excludes. */
function* spansOf({ ranges = [] }: PortForward): Iterable<readonly [from: number, to: number]> {
  const edges = ranges
    .flatMap(({ start, end, exclude }) => {
      const first = numberOf(start) ?? 0
      const from = Math.max(0, Math.ceil(first))
      const to = Math.min(maxPort, Math.floor(numberOf(end) ?? first)) + 1
      const isExcluded = exclude === true
      return from < to
        ? [
            { at: from, step: 1, isExcluded },
            { at: to, step: -1, isExcluded },
          ]
        : []
    })
    .toSorted((one, other) => one.at - other.at)
  let included = 0
  let excluded = 0
  let from = 0
  for (const { at, step, isExcluded } of edges) {
    if (included > 0 && excluded === 0 && from < at) yield [from, at]
    if (isExcluded) excluded += step
    else included += step
    from = at
  }
}
