import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { renderCause } from '../api/refusal.ts'
import type { Inventory } from '../inventory/inventory.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'

/** The input of completion in one namespace, besides the VM. */
export interface Scope {
  readonly inventory: Inventory
  /** The user as in an admission request; absent if unknown. */
  readonly userInfo?: unknown
  /** The IDs of the presets from which the user may exempt the VM; undefined if the VM excludes none. */
  readonly exempt: (vm: VirtualMachine) => Promise<ReadonlySet<string>> | undefined
}

export interface Scopes {
  readonly of: (namespace: string) => Promise<Scope>
}

/** Without a cluster: one inventory for all namespaces, no exemptions. */
export const offline = (inventory: Inventory): Scopes => ({
  of: () => Promise.resolve({ inventory, exempt: () => undefined }),
})

export const quarantineWarning = ({ id, causes }: QuarantinedPreset): string =>
  `preset "${id}" is broken and not applied: ${causes.map(causeLine).join('; ')}`

export const causeLine = (cause: Cause): string => `${cause.field}: ${renderCause(cause)}`
