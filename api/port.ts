import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { integer, list, open, string, type SchemasOf } from './schema.ts'

/** A port on which the guest serves, reachable at the address of the launcher pod. */
export interface Port {
  /** Services and probes can refer to it. */
  readonly name: string
  readonly port: number
  /** TCP if absent. */
  readonly protocol?: 'TCP' | 'UDP'
}

/** Clients of the pod's address reach the guest only on these ports, unless the interface passes every port. */
export const ports = list(
  "Ports on which the guest serves. They are forwarded to it from the address of the launcher pod, and are the pod's containerPorts.",
  open(
    'A port.',
    {
      name: string('The unique name, to which Services and probes can refer.', { minLength: 1, maxLength: 15 }),
      port: integer('The number of the port, in the guest and at the address of the pod.', {
        minimum: 1,
        maximum: 65_535,
        format: 'int32',
      }),
      protocol: string('TCP or UDP. TCP if absent.', { enum: ['TCP', 'UDP'] }),
    } satisfies SchemasOf<Port>,
    ['name', 'port'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
)

export const protocolOf = ({ protocol }: Port): 'TCP' | 'UDP' => protocol ?? 'TCP'

/** Kubernetes' rule for names of ports (IANA service names). */
const isPortName = (name: string): boolean =>
  /^[a-z0-9-]{1,15}$/.test(name) && /[a-z]/.test(name) && !/^-|-$|--/.test(name)

const portNameRule =
  'must be at most 15 lower-case letters, digits and `-`, with at least one letter, and no `-` at an end or beside another'

/** Checks ports that match their schema. */
export function checkPorts(given: readonly Port[], field: string): Cause[] {
  const seen = new Map<string, string>()
  return given.flatMap((one, index) => {
    const at = `${field}[${index}]`
    const key = `${protocolOf(one)} ${one.port}`
    const other = seen.get(key)
    seen.set(key, at)
    const causes: Cause[] = isPortName(one.name)
      ? []
      : [invalidValue('port-name', `${at}.name`, one.name, portNameRule)]
    if (other !== undefined) {
      const message = `${other} already has this port with protocol ${protocolOf(one)}`
      causes.push({ rule: 'port-unique', field: `${at}.port`, value: one.port, reason: 'FieldValueDuplicate', message })
    }
    return causes
  })
}
