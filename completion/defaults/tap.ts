import type { Tap } from '../../api/tap.ts'
import { fill, list, type DeviceOf, type Rule } from './rule.ts'

type Interface = DeviceOf<'interfaces'>

/** Whether nothing about an interface chooses how it is connected. */
const isUndecided = ({ type, backend, source, portForwards = [] }: Interface): boolean =>
  type === undefined && backend === undefined && source === undefined && portForwards.length === 0

export const interfaceTap: Rule = {
  name: 'interface-tap',
  description:
    'Each of the `taps` of the VM connects the first interface that states neither a type nor how it is connected: its type is `ethernet`, its `target` the tap, which libvirt does not create, and its model `virtio`. libvirt itself knows no such taps.',
  about: ['interfaces'],
  *apply(domain, { isOurs, taps = [] }) {
    if (isOurs !== true || taps.length === 0) return
    const interfaces = list(domain, 'interfaces')
    const named = new Map<string | undefined, Interface>(interfaces.map((one) => [one.target?.dev, one]))
    const free = interfaces.filter((one) => isUndecided(one) && one.target?.dev === undefined)
    for (const { dev } of taps) {
      const one = named.get(dev) ?? free.shift()
      if (one !== undefined && (isUndecided(one) || one.type === 'ethernet')) yield fill(one, connected(dev))
    }
  },
}

const connected = (dev: Tap['dev']) =>
  ({ type: 'ethernet', target: { dev, managed: false }, model: { type: 'virtio' } }) as const
