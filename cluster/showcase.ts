import { readFileSync } from 'node:fs'

import type { Origin } from '../api/cause.ts'
import { completedByAnnotation } from '../api/machine.ts'
import { originOf } from '../completion/origins.ts'
import { decodeProvenance } from '../completion/provenance.ts'
import { joinPath } from '../presets/path.ts'
import { run } from './command.ts'
import { exampleFile } from './examples.ts'
import type { Settings } from './settings.ts'

/** What is read of a VM. */
interface ShownMachine {
  readonly metadata: { readonly annotations?: Readonly<Record<string, string>> }
  readonly spec: unknown
}

/** Shows what virtset is about, on the example: what the user wrote, who added what, what runs, and what to try next. */
export async function showcase(settings: Settings, kubectl: readonly string[]): Promise<string> {
  const machine: ShownMachine = JSON.parse(await run([...kubectl, 'get', 'vm', 'testvm', '-o', 'json']))
  const table = await run([...kubectl, 'get', 'vm', '-o', 'wide'])
  return [
    '',
    'This is what the user wrote (manifests/examples/testvm.yaml):',
    '',
    indent(readFileSync(exampleFile(settings, 'testvm'), 'utf8')),
    'and this is what was stored, complete and valid, before anything started:',
    '',
    indent(renderCounts(countOrigins(machine))),
    'It runs:',
    '',
    indent(table),
    'To go on:',
    '',
    `  export KUBECONFIG=${settings.state}/kubeconfig PATH=${kubectl[0]?.replace(/\/kubectl$/, '')}:$PATH`,
    '',
    '  npm run -s vm -- explain testvm                                      # the whole machine, every field with who put it there',
    '  kubectl apply -f manifests/examples/refused/three-mistakes.yaml      # refused, with every reason at once',
    '  kubectl explain vm.spec.domain.devices.disks                         # what can be written there',
    '',
  ].join('\n')
}

/** How many fields of a VM's spec came from whom, the user first, libvirt's defaults last. */
export function countOrigins(machine: ShownMachine): Map<string, number> {
  const provenance = decodeProvenance(machine.metadata.annotations?.[completedByAnnotation] ?? '')
  const counts = new Map<string, number>([[user, 0]])
  const visit = (value: unknown, path: string): void => {
    const members = typeof value === 'object' && value !== null ? Object.entries(value) : []
    for (const [key, member] of members) visit(member, joinPath(path, Array.isArray(value) ? Number(key) : key))
    if (members.length > 0) return
    const who = nameOf(provenance === undefined ? { by: 'user' } : originOf(provenance.origins, path))
    counts.set(who, (counts.get(who) ?? 0) + 1)
  }
  visit(machine.spec, 'spec')
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
    .map(([who, count]) => `${String(count).padStart(4)} ${count === 1 ? 'field ' : 'fields'} from ${who}\n`)
    .join('')
}

function indent(text: string): string {
  return text.replaceAll(/^(?=.)/gm, '  ')
}
