import { parsePreset } from '../api/preset.ts'
import { refusalText } from '../api/refusal.ts'
import { checkPreset } from '../presets/check.ts'
import { compileParsed, type CompiledPreset } from '../presets/compile.ts'
import { needsGrant } from '../presets/grant.ts'
import { findOverlaps, overlapWarning } from '../presets/overlap.ts'
import { virtualMachineStructure } from '../presets/structure.ts'
import { exitCode, type ExitCode } from './failure.ts'
import { nameOf, type Input } from './input.ts'
import { inNamespace, isPreset, type Manifest } from '../inventory/manifests.ts'
import type { Streams } from './world.ts'

export interface LintSettings {
  readonly namespace: string
  readonly strict: boolean
  readonly quiet: boolean
}

/**
 * `kubectl vm lint`: checks each preset as admission does, and reports presets that could conflict on a VM, whether or
 * not such a VM exists.
 */
export async function lint(inputs: AsyncIterable<Input>, settings: LintSettings, streams: Streams): Promise<ExitCode> {
  const seen = { unreadable: false, refused: false, warned: false }
  const presets = new Map<string, { readonly file: string; readonly preset: CompiledPreset }>()
  const warn = (file: string, text: string): void => {
    seen.warned = true
    if (!settings.quiet) streams.err(`Warning: ${file}: ${text}\n`)
  }
  let checked = 0
  for await (const input of inputs) {
    if (input.kind !== 'manifest') {
      seen.unreadable = true
      streams.err(`error: ${input.kind === 'xml' ? `${input.file}: is XML, not a preset` : input.message}\n`)
      continue
    }
    if (!isPreset(input.object)) continue
    checked++
    const found = lintOne(inNamespace(input.object, settings.namespace))
    for (const text of found.warnings) warn(input.file, text)
    if (found.refusal !== undefined) {
      seen.refused = true
      streams.err(`${input.file}: ${found.refusal}\n`)
    }
    if (found.preset === undefined) continue
    const { id } = found.preset
    const before = presets.get(id)
    if (before !== undefined)
      warn(input.file, `preset "${id}" is also in ${before.file}: only one of the two can be applied`)
    presets.set(id, { file: input.file, preset: found.preset })
  }
  for (const { file, text } of overlapsAmong(presets)) warn(file, text)
  if (checked === 0 && !seen.unreadable) {
    seen.unreadable = true
    streams.err('error: no preset found\n')
  } else if (checked > 0) streams.out(`${checked} ${checked === 1 ? 'preset' : 'presets'} checked\n`)
  return exitCode(seen, settings.strict)
}

interface Found {
  readonly preset?: CompiledPreset
  readonly refusal?: string
  readonly warnings: readonly string[]
}

function lintOne(object: Manifest): Found {
  const parsed = parsePreset(object)
  const kind = String(object['kind'])
  if ('causes' in parsed) return { refusal: refusalText(kind, nameOf(object), parsed.causes), warnings: [] }
  const { causes, warnings } = checkPreset(parsed.preset)
  const id = `preset "${nameOf(object)}"`
  const all = [
    ...warnings.map((text) => `${id}: ${text}`),
    ...(needsGrant(parsed.preset)
      ? [
          `${id}: has fields that reach the host: writing it requires the verb "grant-host" on clustervirtualmachinepresets`,
        ]
      : []),
  ]
  if (causes.length > 0) return { refusal: refusalText(kind, nameOf(object), causes), warnings: all }
  return { preset: compileParsed(parsed.preset), warnings: all }
}

/** Reports each pair once, for the later file. */
function* overlapsAmong(
  presets: ReadonlyMap<string, { readonly file: string; readonly preset: CompiledPreset }>,
): Generator<{ readonly file: string; readonly text: string }> {
  const structure = virtualMachineStructure()
  const earlier: CompiledPreset[] = []
  for (const { file, preset } of presets.values()) {
    for (const overlap of findOverlaps(preset, earlier, structure).overlaps) {
      yield { file, text: `preset "${preset.id}" ${overlapWarning(overlap)}` }
    }
    earlier.push(preset)
  }
}
