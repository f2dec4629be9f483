import { noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { createCandidates, type Candidates, type Namespace } from '../presets/candidates.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'

/** Everything that completion must know of the cluster besides the VM and the request. */
export interface Inventory {
  readonly candidates: Candidates
  /** Presets that are broken and therefore not applied, by id. */
  readonly quarantined: ReadonlyMap<string, QuarantinedPreset>
  namespace(name: string): Namespace
  /** What the nodes can do, as their profiles state it. */
  capabilities(): NodeCapabilities
  /**
   * Whether a VM other than `vm` has a MAC address.
   * @param address lower case, with colons
   */
  isMacTaken(address: string, vm: VmName): boolean
}

export interface VmName {
  readonly namespace: string
  /** Absent while the API server has not made a name of `generateName`. */
  readonly name?: string | undefined
}

/** Whether any of the VMs that have a MAC address is another than `vm`. */
export const isTakenBy = (holders: readonly { readonly metadata: Partial<VmName> }[], vm: VmName): boolean =>
  holders.some(({ metadata }) => metadata.namespace !== vm.namespace || metadata.name !== vm.name)

/** A namespace of which nothing is known but its name, which every namespace has as a label. */
export const unlabelledNamespace = (name: string): Namespace => ({
  name,
  labels: { 'kubernetes.io/metadata.name': name },
})

/** No presets, no VMs, and the capabilities that virtset ships with. */
export const emptyInventory = (): Inventory => ({
  candidates: createCandidates(),
  quarantined: new Map(),
  namespace: unlabelledNamespace,
  capabilities: () => noNodes,
  isMacTaken: () => false,
})
