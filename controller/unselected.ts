import type { Origin } from '../api/cause.ts'
import { joinPath } from '../api/path.ts'
import { templateRevisionAnnotation } from '../api/template.ts'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { originOf } from '../completion/origins.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { isSelected, requirementText } from '../presets/selector.ts'
import type { Requirement, Selector } from '../presets/selector.ts'
import { originLabel } from '../presets/source.ts'

/** Admission gave a VM of a group labels that the group does not select. */
export class UnselectedVm extends Error {
  override name = 'UnselectedVm'
}

/** Why a selector does not select a VM that was created for it; undefined if it does. */
export function whyUnselected(selector: Selector, vm: VirtualMachine): string | undefined {
  const [unmet] = unmetBy(selector, vm)
  if (unmet === undefined) return undefined
  const { origins = new Map<string, Origin>(), enforced } = provenanceOf(vm) ?? {}
  const path = pathOf(unmet)
  return textOf(unmet, vm, enforced?.get(path) ?? originOf(origins, path))
}

/**
 * The same if the VM was created from a template, and a label is to blame that a preset enforces. Users cannot change
 * such a label, so the selector has not selected the VM since it was completed. Any other VM was selected when a group
 * adopted it.
 */
export function whyNeverSelected(selector: Selector, vm: VirtualMachine): string | undefined {
  if (vm.metadata.annotations?.[templateRevisionAnnotation] === undefined) return undefined
  const unmet = unmetBy(selector, vm)
  const enforced = unmet.length === 0 ? undefined : provenanceOf(vm)?.enforced
  for (const one of unmet) {
    const origin = enforced?.get(pathOf(one))
    if (origin !== undefined) return textOf(one, vm, origin)
  }
  return undefined
}

const unmetBy = ({ requirements }: Selector, { metadata: { labels = {} } }: VirtualMachine): readonly Requirement[] =>
  requirements.filter((one) => !isSelected({ requirements: [one] }, labels))

const provenanceOf = ({ metadata }: VirtualMachine) =>
  decodeProvenance(metadata.annotations?.[completedByAnnotation] ?? '')

const pathOf = ({ key }: Requirement): string => joinPath('metadata.labels', key)

function textOf(unmet: Requirement, { metadata: { labels = {} } }: VirtualMachine, origin: Origin): string {
  const value = Object.hasOwn(labels, unmet.key) ? labels[unmet.key] : undefined
  const label = value === undefined ? `no label ${unmet.key}` : `the label ${unmet.key}=${value}`
  const by = origin.by === 'preset' ? `, set by preset "${originLabel(origin)}"` : ''
  // Without the name of the VM, so that the next one fails with the same text.
  return `VMs of this group get ${label}${by}, but spec.selector requires ${requirementText(unmet)}`
}
