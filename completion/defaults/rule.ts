import type { Domain } from '../../api/domain/domain.ts'
import type { Capabilities } from '../../api/capabilities.ts'

/** What identities are drawn from: the same uid gives the same answer. */
export interface Entropy {
  /** The UID of the admission request, or of the config that owns the VM. */
  readonly uid: string
  /** Whether each start of the VM must draw the same values, whatever other VMs have. */
  readonly isFixed?: boolean
  /** What was drawn when this VM was completed before; it is not drawn a second time. */
  readonly recalled?: Recalled
}

export interface Recalled {
  readonly uuid: string | undefined
  /** By the place of the interface. */
  readonly macs: readonly (string | undefined)[]
}

export interface Context {
  readonly capabilities: Capabilities
  readonly entropy: Entropy
  /** The name of the VM, where the domain has none of its own. */
  readonly name?: string
  /** The namespace of the VM; absent where there is none. */
  readonly namespace?: string
  /**
   * Whether libvirt shall see the domain for the first time: then USB devices get addresses, and hubs where ports run
   * out, and any format of firmware will do. For one that it reads again it does neither.
   */
  readonly isNew?: boolean
  /**
   * Whether another VM of the cluster has a MAC address (lower case, with colons); without it only those of the domain
   * are known.
   */
  readonly isMacTaken?: (address: string) => boolean
}

export type Devices = NonNullable<Domain['devices']>
/** The keys of the lists of devices. */
export type DeviceList = {
  [K in keyof Devices]-?: NonNullable<Devices[K]> extends readonly (infer _)[] ? K : never
}[keyof Devices]
export type DeviceOf<K extends DeviceList> =
  NonNullable<Devices[K]> extends readonly (infer D extends object)[] ? D : never

/** The same tree with everything optional, as a rule adds it. */
export type Values<T> = T extends object ? { readonly [K in keyof T]?: Values<T[K]> | undefined } : T

/** What a rule adds: values below an object that is there, or a new item at the end of a list. */
export type Addition =
  | { readonly kind: 'fill'; readonly to: object; readonly values: object }
  | { readonly kind: 'append'; readonly to: object; readonly key: string; readonly item: object }

/**
 * One default. It reads the domain as the rules before it have left it, and gives back what it adds; what is there
 * already stays whatever a rule returns. A rule that is a generator sees each of its additions when it continues.
 */
export interface Rule {
  /** Recorded in the provenance of what it adds. */
  readonly name: string
  readonly description: string
  /** Kinds of device: where none of them is there the rule adds nothing, and is not asked. Absent: always asked. */
  readonly about?: readonly (keyof Devices)[]
  /** @param read the domain as it was before the first rule */
  readonly apply: (domain: Domain, context: Context, read: Domain) => Iterable<Addition>
}

/** Adds, below `to`, what of `values` is not there. */
export const fill = <T extends object>(to: T, values: Values<T>): Addition => ({ kind: 'fill', to, values })

/** Adds an item at the end of a list of `to`. */
export const appendTo = (to: object, key: string, item: object): Addition => ({ kind: 'append', to, key, item })

/** Adds a device at the end of its list. */
export const append = <K extends DeviceList>(devices: Devices, key: K, item: Values<DeviceOf<K>>): Addition =>
  appendTo(devices, key, item)

/** A rule for the domain as a whole: what it gives back is filled in at the root. */
export const rule = (
  name: string,
  description: string,
  values: (domain: Domain, context: Context) => Values<Domain> | undefined,
): Rule => ({
  name,
  description,
  apply: (domain, context) => {
    const added = values(domain, context)
    return added === undefined ? [] : [fill(domain, added)]
  },
})

/** Makes rules for every device of a kind. */
export const each =
  <K extends DeviceList>(key: K) =>
  (
    name: string,
    description: string,
    values: (device: DeviceOf<K>, domain: Domain, context: Context, index: number) => Values<DeviceOf<K>> | undefined,
  ): Rule => ({
    name,
    description,
    about: [key],
    apply: (domain, context) => {
      const additions: Addition[] = []
      for (const [index, device] of list(domain, key).entries()) {
        const added = values(device, domain, context, index)
        if (added !== undefined) additions.push(fill(device, added))
      }
      return additions
    },
  })

/** The devices of a kind, in the order in which they are stored; the list itself, so that later additions are seen. */
export const list = <K extends DeviceList>(domain: Domain, key: K): readonly DeviceOf<K>[] => {
  const found: unknown = domain.devices?.[key]
  // The key decides the type of the items; the compiler does not follow that through the mapped type.
  return Array.isArray(found) ? (found as DeviceOf<K>[]) : none
}

const none: readonly never[] = []
