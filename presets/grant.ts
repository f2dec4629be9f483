import type { Domain } from '../api/domain/domain.ts'
import { hostKeys, reachOf, walk } from '../api/domain/walk.ts'
import type { Preset } from '../api/preset.ts'
import { isForeign } from '../api/tap.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'

/**
 * The paths of what reaches the host in a VM or a preset: fields of the domain, and entries that stand for something of
 * the node. A namespaced preset may have none. Writing a cluster preset that has some requires the verb `grant-host` on
 * clustervirtualmachinepresets.
 */
export const hostPaths = (spec: Partial<VirtualMachineSpec>): readonly string[] => [
  ...hostFields(spec.domain ?? {}),
  ...nodePaths(spec),
]

/**
 * Devices of the node, claims for them, taps of plugins that an operator has installed on it, and taps in networks of
 * other namespaces. Each is one place: its name decides which device of the domain gets it.
 */
export const nodePaths = ({
  hostDevices = [],
  resourceClaims = [],
  taps = [],
}: Partial<VirtualMachineSpec>): readonly string[] => [
  ...hostDevices.map((_, index) => `spec.hostDevices[${index}]`),
  ...resourceClaims.map((_, index) => `spec.resourceClaims[${index}]`),
  ...taps.flatMap((tap, index) => (isForeign(tap) ? [`spec.taps[${index}]`] : [])),
]

function hostFields(domain: Domain): readonly string[] {
  const paths: string[] = []
  walk(
    domain,
    ({ path, field, value }) => {
      if (reachOf(field, value) !== 'host') return true
      paths.push(path)
      // Fields below a host-reaching element are part of it.
      return false
    },
    'spec.domain',
    hostKeys,
  )
  return paths
}

/**
 * The source, or log, that something which reaches the host is in. It is one place: the part of a block device, the
 * export of a socket, the image behind a configuration of the node, whether QEMU connects to a socket or takes its place,
 * and whether it truncates a file, decide what the guest gets. Undefined for labels, reservations and NUMA nodes, which
 * do not.
 */
export const sourceAround = (path: string): string | undefined =>
  /\.(?:seclabels?|reservations|nodemask)\b/.test(path)
    ? undefined
    : /^.*?\.(?:sources?(?:\[\d+\])?|log)(?=\.)/.exec(path)?.[0]

/**
 * The device that gives the guest what is at a path that reaches the host: its fields can be a part of the grant. A
 * backing image is only read, whatever the disk is.
 */
export const deviceGiving = (path: string): string | undefined => {
  const source = sourceAround(path)
  const device = deviceAround(path)
  if (source !== undefined) return source === `${device}.source` ? device : undefined
  return /^spec\.domain\.(?:devices\.pstore\.path|os\.loader\.value)$/.test(path) ? device : undefined
}

/** The device, or firmware, that a path is in. */
export const deviceAround = (path: string): string | undefined =>
  /^spec\.domain\.(?:devices\.(?:\w+\[\d+\]|pstore)|os\.loader)(?=\.|$)/.exec(path)?.[0]

/** A field that is a part of the grant of its device. */
export interface GrantField {
  readonly path: string
  readonly value: unknown
  /** Whether the value does no more than the default. */
  readonly isHarmless: boolean
}

export function grantFields(domain: Domain): readonly GrantField[] {
  const fields: GrantField[] = []
  walk(
    domain,
    ({ path, field: { ofGrant }, value }) => {
      if (ofGrant === undefined) return true
      fields.push({ path, value, isHarmless: ofGrant.includes('*') || ofGrant.includes(String(value)) })
      return false
    },
    'spec.domain',
    hostKeys,
  )
  return fields
}

/**
 * Whether a leaf of a source only says what happens while the source cannot be reached: it does not decide what the
 * guest gets. `index` is what libvirt reports.
 */
export const isOptionOfSource = (path: string): boolean =>
  /\.sources?(?:\[\d+\])?\.(?:startupPolicy|reconnect|index)\b/.test(path)

export const needsGrant = ({ kind, spec }: Preset): boolean =>
  kind === 'ClusterVirtualMachinePreset' && hostPaths(spec).length > 0
