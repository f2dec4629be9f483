import { protocolOf, type Port } from '../../api/port.ts'
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
    const missing = ports.filter((port) => !forwards.some((one) => forwardsPort(one, port)))
    for (const protocol of ['TCP', 'UDP'] as const) {
      const ranges = missing.filter((port) => protocolOf(port) === protocol).map(({ port }) => ({ start: port }))
      if (ranges.length > 0) yield appendTo(first, 'portForwards', { proto: protocol.toLowerCase(), ranges })
    }
  },
}

/** Whether the forward listens on the port at the address of the pod. */
function forwardsPort({ proto = 'tcp', ranges = [] }: PortForward, port: Port): boolean {
  if (proto.toUpperCase() !== protocolOf(port)) return false
  const covers = ({ start, end }: (typeof ranges)[number]): boolean => {
    const first = numberOf(start) ?? 0
    return first <= port.port && port.port <= (numberOf(end) ?? first)
  }
  return (
    !ranges.some((range) => range.exclude === true && covers(range)) &&
    ranges.some((range) => range.exclude !== true && covers(range))
  )
}
