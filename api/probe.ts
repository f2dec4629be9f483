import type { Cause } from './cause.ts'
import { integer, list, open, string, union, type Schema, type SchemasOf } from './schema.ts'

/** How the kubelet checks the guest: Kubernetes' own probe, sent to the address of the pod or to the guest's agent. */
export interface Probe {
  readonly httpGet?: {
    /** The number of a port of the VM, or its name. */
    readonly port: number | string
    readonly path?: string
    readonly scheme?: 'HTTP' | 'HTTPS'
    readonly httpHeaders?: readonly { readonly name: string; readonly value: string }[]
  }
  readonly tcpSocket?: { readonly port: number | string }
  readonly exec?: { readonly command: readonly string[] }
  readonly initialDelaySeconds?: number
  readonly timeoutSeconds?: number
  readonly periodSeconds?: number
  readonly successThreshold?: number
  readonly failureThreshold?: number
}

const port: Schema = { description: 'The number or name of a port in spec.ports.', 'x-kubernetes-int-or-string': true }

/** Numbers of 32 bits in Kubernetes: a pod with a larger one cannot be created. */
const seconds = (description: string, minimum: number) =>
  integer(description, { minimum, maximum: 2 ** 31 - 1, format: 'int32' })

/** Without `host`, by which a probe would reach another address from the node. */
const kinds = {
  httpGet: open(
    'Succeeds if the guest answers a GET request with a status from 200 to 399.',
    {
      port,
      path: string('The path of the URL; / if absent.'),
      scheme: string('HTTP or HTTPS; the certificate is not checked. HTTP if absent.', { enum: ['HTTP', 'HTTPS'] }),
      httpHeaders: list(
        'Headers of the request.',
        open('A header.', { name: string('Its name.', { minLength: 1 }), value: string('Its value.') }, [
          'name',
          'value',
        ]),
        { 'x-kubernetes-list-type': 'atomic', maxItems: 32 },
      ),
    } satisfies SchemasOf<Required<Probe>['httpGet']>,
    ['port'],
  ),
  tcpSocket: open(
    'Succeeds if the port accepts a connection. passt accepts it for the guest, whether the guest serves or not.',
    { port } satisfies SchemasOf<Required<Probe>['tcpSocket']>,
    ['port'],
  ),
  exec: open(
    'Succeeds if a command in the guest exits with status 0. It is run by the QEMU guest agent, which needs a channel.',
    {
      command: list(
        'The path of a program in the guest and its arguments. No shell is involved; to use one, state sh and -c.',
        string('An argument.', { maxLength: 4096 }),
        { 'x-kubernetes-list-type': 'atomic', minItems: 1, maxItems: 64 },
      ),
    } satisfies SchemasOf<Required<Probe>['exec']>,
    ['command'],
  ),
}

const times = {
  initialDelaySeconds: seconds('Seconds from the start of the pod to the first probe; 0 if absent.', 0),
  timeoutSeconds: seconds('Seconds after which a probe fails; 1 if absent.', 1),
  periodSeconds: seconds('Seconds between probes; 10 if absent.', 1),
}

export const readinessProbe = union(
  'Whether the guest is ready to serve: until it succeeds, and while it fails, the VM is not Ready, and Services send nothing to it.',
  {
    ...times,
    successThreshold: seconds('Successes in a row after which the guest is ready; 1 if absent.', 1),
    failureThreshold: seconds('Failures in a row after which the guest is not ready; 3 if absent.', 1),
  } satisfies SchemasOf<Omit<Probe, keyof typeof kinds>>,
  kinds,
)

/** One that ends the VM. Kubernetes accepts no successThreshold but 1 here. */
export type EndingProbe = Omit<Probe, 'successThreshold'>

const endingFields = {
  ...times,
  failureThreshold: seconds('Failures in a row after which the VM is ended; 3 if absent.', 1),
} satisfies SchemasOf<Omit<EndingProbe, keyof typeof kinds>>

export const livenessProbe = union(
  'Whether the guest still works: when it fails, the guest is shut down with its grace period, and the VM fails with the reason LivenessProbeFailed. Set a startupProbe for a guest that needs time to boot.',
  endingFields,
  kinds,
)

export const startupProbe = union(
  'Whether the guest has booted: the other probes begin when it has succeeded once, and the VM is not Ready before. If it fails failureThreshold times, the VM is ended with the reason StartupProbeFailed. Its time begins with the pod, and includes that of filling disks.',
  endingFields,
  kinds,
)

/** The probes of a VM, as fields of its spec. */
export interface Probes {
  readonly readinessProbe?: Probe
  readonly livenessProbe?: EndingProbe
  readonly startupProbe?: EndingProbe
}

export type ProbeName = keyof Probes

export const probeNames = ['readinessProbe', 'livenessProbe', 'startupProbe'] as const satisfies ProbeName[]

export const checkProbes = (probes: Probes, field: string): Cause[] =>
  probeNames.flatMap((name) => checkProbe(probes[name], `${field}.${name}`))

/** Checks a probe that matches its schema. The rules of completion check its port. */
function checkProbe(probe: Probe | undefined, field: string): Cause[] {
  if (probe === undefined) return []
  const given = Object.keys(kinds).filter((kind) => Object.hasOwn(probe, kind))
  const rule = 'probe-kind'
  if (given.length === 0)
    return [{ rule, field, reason: 'FieldValueRequired', message: 'must set httpGet, tcpSocket or exec' }]
  const conflicts = given.slice(1).map((kind) => ({
    rule,
    field: `${field}.${kind}`,
    reason: 'FieldValueForbidden' as const,
    message: `conflicts with ${given[0]}: a probe has one kind`,
  }))
  return [...conflicts, ...checkCommand(probe.exec?.command ?? [], `${field}.exec.command`)]
}

/** The launcher sends the command to libvirt as JSON at each probe. */
const maxCommandLength = 8192

function checkCommand(command: readonly string[], field: string): Cause[] {
  const rule = 'probe-command'
  const length = command.reduce((sum, argument) => sum + argument.length, 0)
  const refuse = (at: string, value: string | number, message: string): Cause => ({
    rule,
    field: at,
    value,
    reason: 'FieldValueInvalid',
    message,
  })
  return [
    ...(command[0] === '' ? [refuse(`${field}[0]`, '', 'must be the path or name of a program in the guest')] : []),
    ...command.flatMap((argument, index) =>
      argument.includes('\0') ? [refuse(`${field}[${index}]`, argument, 'must not contain a NUL character')] : [],
    ),
    ...(length > maxCommandLength
      ? [
          {
            ...refuse(
              field,
              length,
              `must have at most ${maxCommandLength} characters in all; use a script in the guest`,
            ),
            reason: 'FieldValueTooLong' as const,
          },
        ]
      : []),
  ]
}
