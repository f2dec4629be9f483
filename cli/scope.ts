import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { renderCause } from '../api/refusal.ts'
import type { Inventory } from '../inventory/inventory.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'

/** What completing VMs of one namespace depends on besides the VM. */
export interface Scope {
  readonly inventory: Inventory
  /** The caller as an admission request states it; absent where that is unknown. */
  readonly userInfo?: unknown
  /** Ids of the presets that the caller may exempt the VM from; undefined where the VM asks for no exemption. */
  readonly exempt: (vm: VirtualMachine) => Promise<ReadonlySet<string>> | undefined
}

export interface Scopes {
  readonly of: (namespace: string) => Promise<Scope>
}

/** Without a cluster: one inventory for all namespaces, and no exemptions. */
export const offline = (inventory: Inventory): Scopes => ({
  of: () => Promise.resolve({ inventory, exempt: () => undefined }),
})

export const quarantineWarning = ({ id, causes }: QuarantinedPreset): string =>
  `preset "${id}" is broken and not applied: ${causes.map(causeLine).join('; ')}`

export const causeLine = (cause: Cause): string => `${cause.field}: ${renderCause(cause)}`
