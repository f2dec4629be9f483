import type { Domain } from '../../api/domain/domain.ts'
import type { Port } from '../../api/port.ts'
import type { Tap } from '../../api/tap.ts'
import type { ImageCapabilities } from '../capabilities.ts'

/** The source of identities: the same uid gives the same identities. */
export interface Entropy {
  /** The UID of the admission request, or of the config that owns the VM. */
  readonly uid: string
  /** Whether each start of the VM must get the same identities, even if another VM uses them. */
  readonly isFixed?: boolean
  /** The identities of this VM when it was completed before. They are reused. */
  readonly previous?: PreviousIdentity
}

export interface PreviousIdentity {
  readonly name: string | undefined
  readonly uuid: string | undefined
  /** By the index of the interface. */
  readonly macs: readonly (string | undefined)[]
}

export interface Context {
  /** Not those of the hardware: a VM is completed once for all nodes with the same image. */
  readonly capabilities: ImageCapabilities
  readonly entropy: Entropy
  /** The name of the VM, for a domain without a name. */
  readonly name?: string
  /** The prefix of the name that the API server generates for a VM without a name. */
  readonly generateName?: string
  /** The namespace of the VM, if it has one. */
  readonly namespace?: string
  /**
   * Whether the domain is new to libvirt. Then USB devices get addresses, hubs are added if ports run out, and any
   * firmware format is acceptable. None of this applies to a domain that libvirt reads again.
   */
  readonly isNew?: boolean
  /** The ports of the VM. */
  readonly ports?: readonly Port[]
  /** The taps of the VM. */
  readonly taps?: readonly Tap[]
  /** The names of the VM's volumes whose disk is in a container image. */
  readonly imageVolumes?: ReadonlySet<string>
  /**
   * Whether the rules apply that are virtset's and not libvirt's. Off where the result is compared with libvirt's.
   */
  readonly isOurs?: boolean
  /**
   * Whether another VM in the cluster has a MAC address (lower case, with colons). If absent, only those of the domain
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

/** The same tree with all members optional, as a rule adds it. */
export type Values<T> = T extends object ? { readonly [K in keyof T]?: Values<T[K]> | undefined } : T

/** What a rule adds: values to an existing object, or a new item at the end of a list. */
export type Addition =
  | { readonly kind: 'fill'; readonly to: object; readonly values: object }
  | { readonly kind: 'append'; readonly to: object; readonly key: string; readonly item: object }

/**
 * A rule for one default. It reads the domain as earlier rules left it and returns what it adds; existing values never
 * change. A rule that is a generator sees each of its additions when it continues.
 */
export interface Rule {
  /** Recorded in the provenance of the values that it adds. */
  readonly name: string
  readonly description: string
  /** Lists of devices. If all are absent, the rule would add nothing and is skipped. Without `about` it always runs. */
  readonly about?: readonly (keyof Devices)[]
  /** @param read the domain as it was before the first rule */
  readonly apply: (domain: Domain, context: Context, read: Domain) => Iterable<Addition>
}

/** Adds those of `values` that are missing from `to`. */
export const fill = <T extends object>(to: T, values: Values<T>): Addition => ({ kind: 'fill', to, values })

/** Adds an item at the end of a list in `to`. */
export const appendTo = (to: object, key: string, item: object): Addition => ({ kind: 'append', to, key, item })

/** Adds a device at the end of its list. */
export const append = <K extends DeviceList>(devices: Devices, key: K, item: Values<DeviceOf<K>>): Addition =>
  appendTo(devices, key, item)

/** Creates a rule for the whole domain; the values that it returns are filled in at the root. */
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

/** Creates rules for every device of a kind. */
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

/** The devices of a kind, in stored order. Returns the list itself, so that later additions are visible. */
export const list = <K extends DeviceList>(domain: Domain, key: K): readonly DeviceOf<K>[] => {
  const found: unknown = domain.devices?.[key]
  // The key determines the type of the items, which the compiler does not infer through the mapped type.
  return Array.isArray(found) ? (found as DeviceOf<K>[]) : none
}

const none: readonly never[] = []
