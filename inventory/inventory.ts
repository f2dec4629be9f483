import { noNodes, type NodeCapabilities } from '../completion/nodes.ts'
import { createCandidates, type Candidates, type Namespace } from '../presets/candidates.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'

/** Everything that completion needs to know about the cluster, besides the VM and the request. */
export interface Inventory {
  readonly candidates: Candidates
  /** Presets that are broken and therefore not applied, by ID. */
  readonly quarantined: ReadonlyMap<string, QuarantinedPreset>
  namespace(name: string): Namespace
  /** The capabilities of the nodes, according to their profiles. */
  capabilities(): NodeCapabilities
  /**
   * Whether a VM other than `vm` has a MAC address.
   * @param address lower case, with colons
   */
  isMacTaken(address: string, vm: VmName): boolean
}

export interface VmName {
  readonly namespace: string
  /** Absent until the API server generates a name from `generateName`. */
  readonly name?: string | undefined
}

/** A VM that has a MAC address. */
export interface MacHolder {
  readonly metadata: Partial<VmName>
}

/** Whether the holder of a MAC address is another VM. */
export const isOther = ({ metadata }: MacHolder, vm: VmName): boolean =>
  metadata.namespace !== vm.namespace || metadata.name !== vm.name

/** A namespace about which only the name is known. Every namespace has its name as a label. */
export const unlabelledNamespace = (name: string): Namespace => ({
  name,
  labels: { 'kubernetes.io/metadata.name': name },
})

/** No presets, no VMs, and the bundled capabilities. */
export const emptyInventory = (): Inventory => ({
  candidates: createCandidates(),
  quarantined: new Map(),
  namespace: unlabelledNamespace,
  capabilities: () => noNodes,
  isMacTaken: () => false,
})
