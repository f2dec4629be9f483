import type { Capabilities } from '../api/capabilities.ts'
import type { Cause } from '../api/cause.ts'
import { parseVirtualMachine, type VirtualMachine } from '../api/virtual-machine.ts'
import { asWritten, impactOn, type Alternatives } from '../completion/impact.ts'
import { equalNodes } from '../completion/nodes.ts'
import type { Inventory } from '../inventory/inventory.ts'
import { inventoryOf, presetsOf, type Manifest, type Presets } from '../inventory/manifests.ts'
import { createCandidates } from '../presets/candidates.ts'
import { changesBetween, type Change } from './change.ts'
import { completeIn } from './completion.ts'
import { derivedUid } from './derive-uid.ts'
import { namespaceOf, type State } from './impact-state.ts'
import { nameOf } from './input.ts'

/** A VM that would differ. */
export interface Affected {
  readonly name: string
  readonly changes: readonly Change[]
  /** New causes. */
  readonly causes: readonly Cause[]
  /** Whether it was refused before and would be accepted now. */
  readonly isFreed: boolean
}

/** An existing VM, and what the given presets would do to it. */
export interface Assessed {
  readonly namespace: string
  readonly object: Manifest
  /** As its user wrote it. Undefined if an older version stored fields that are refused now. */
  readonly vm?: VirtualMachine
  /** Undefined if nothing would differ. */
  readonly affected?: Affected
}

/** The current presets, and those with the given ones applied. @param own the namespace of presets without one */
export function alternativesOf(
  given: readonly Manifest[],
  state: Pick<State, 'presets'>,
  own: string,
): Alternatives & Pick<Presets, 'quarantined' | 'compiled'> {
  const now = presetsOf(state.presets, own)
  const { compiled, quarantined } = presetsOf(given, own)
  return {
    before: createCandidates(now.compiled.values()),
    after: createCandidates([...now.compiled.values(), ...compiled.values()]),
    compiled,
    quarantined,
  }
}

/** Completes each VM as its user wrote it with both. */
export async function* assessEach(
  alternatives: Alternatives,
  state: State,
  own: string,
  capabilities?: Capabilities,
): AsyncGenerator<Assessed> {
  for await (const object of state.vms) {
    const namespace = namespaceOf(object, own)
    const parsed = parseVirtualMachine(object)
    if ('causes' in parsed) {
      yield { namespace, object }
      continue
    }
    const vm = asWritten(parsed.vm)
    const inventory = inventoryOf(
      { candidates: alternatives.before, quarantined: new Map() },
      {
        labels: state.labelsOf(namespace),
        capabilities: capabilities === undefined ? state.nodes : equalNodes(capabilities),
      },
    )
    const affected = affectedBy(vm, nameOf(object), namespace, alternatives, inventory)
    yield { namespace, object, vm, ...(affected === undefined ? {} : { affected }) }
  }
}

function affectedBy(
  vm: VirtualMachine,
  name: string,
  namespace: string,
  alternatives: Alternatives,
  inventory: Inventory,
): Affected | undefined {
  const uid = vm.metadata.uid ?? derivedUid(namespace, name)
  const impact = impactOn(vm, inventory.namespace(namespace), alternatives, (candidates) =>
    completeIn(vm, namespace, { inventory: { ...inventory, candidates } }, { uid, skipAnnotation: true }),
  )
  if (impact === undefined) return undefined
  return {
    name,
    changes: impact.kind === 'different' ? changesBetween(impact.before, impact.after) : [],
    causes: impact.kind === 'refused' ? impact.causes : [],
    isFreed: impact.kind === 'freed',
  }
}
