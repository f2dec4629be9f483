import { readFileSync } from 'node:fs'

import type { Origin } from '../api/cause.ts'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import { originOf } from '../completion/origins.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { joinPath } from '../api/path.ts'
import { run } from './command.ts'
import { exampleFile } from './examples.ts'
import type { Settings } from './settings.ts'

/** The parts of a VM that are read here. */
interface ShownVm {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> }
  readonly spec: unknown
}

/**
 * Explains virtset with the example: what the user wrote, where the other fields come from, what is running, and what
 * to try next.
 */
export async function showcase(settings: Settings, kubectl: readonly string[]): Promise<string> {
  const vm: ShownVm = JSON.parse(await run([...kubectl, 'get', 'vm', 'testvm', '-o', 'json']))
  const table = await run([...kubectl, 'get', 'vm', '-o', 'wide'])
  return [
    '',
    'The user wrote this (manifests/examples/testvm.yaml):',
    '',
    indent(readFileSync(exampleFile(settings, 'testvm'), 'utf8')),
    'The stored VM is complete and valid. Its fields come from:',
    '',
    indent(renderCounts(countOrigins(vm))),
    'It is running:',
    '',
    indent(table),
    'Try next:',
    '',
    `  export KUBECONFIG=${settings.state}/kubeconfig PATH=${kubectl[0]?.replace(/\/kubectl$/, '')}:$PATH`,
    '',
    '  npm run -s vm -- explain testvm                                      # every field of the VM with its origin',
    '  kubectl apply -f manifests/examples/refused/three-mistakes.yaml      # refused, with every cause at once',
    '  kubectl explain vm.spec.domain.devices.disks                         # the fields of a disk',
    '',
  ].join('\n')
}

/** The number of fields of a VM's spec by origin, the user first, libvirt's defaults last. */
export function countOrigins(vm: ShownVm): Map<string, number> {
  const provenance = decodeProvenance(vm.metadata.annotations?.[completedByAnnotation] ?? '')
  const counts = new Map<string, number>([[user, 0]])
  const visit = (value: unknown, path: string): void => {
    const members = typeof value === 'object' && value !== null ? Object.entries(value) : []
    for (const [key, member] of members) visit(member, joinPath(path, Array.isArray(value) ? Number(key) : key))
    if (members.length > 0) return
    const name = nameOf(provenance === undefined ? { by: 'user' } : originOf(provenance.origins, path))
    counts.set(name, (counts.get(name) ?? 0) + 1)
  }
  visit(vm.spec, 'spec')
  const defaults = counts.get(libvirt)
  if (defaults === undefined) return counts
  counts.delete(libvirt)
  return counts.set(libvirt, defaults)
}

const user = 'the user'
const libvirt = "libvirt's defaults"

function nameOf(origin: Origin): string {
  if (origin.by === 'user') return user
  return origin.by === 'preset' ? `preset ${origin.name}` : libvirt
}

function renderCounts(counts: ReadonlyMap<string, number>): string {
  return [...counts]
    .map(([name, count]) => `${String(count).padStart(4)} ${count === 1 ? 'field ' : 'fields'} from ${name}\n`)
    .join('')
}

function indent(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '  ')
}
