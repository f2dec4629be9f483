import type { Cause } from '../api/cause.ts'
import { parsePreset } from '../api/preset.ts'
import { inOneLine, refusalText } from '../api/refusal.ts'
import { checkPreset } from '../presets/check.ts'
import { compileParsed, type CompiledPreset } from '../presets/compile.ts'
import { needsGrant } from '../presets/grant.ts'
import { virtualMachineKind, type Kind } from '../presets/kind.ts'
import { findOverlaps, overlapText } from '../presets/overlap.ts'
import { errorLine, warningLine } from './error-line.ts'
import { exitCode, type ExitCode } from './failure.ts'
import { nameOf, type Input } from './input.ts'
import { inNamespace, isObjectPreset, isPreset, type Manifest } from '../inventory/manifests.ts'
import type { KindSource } from './object-kinds.ts'
import type { Streams } from './world.ts'

export interface LintSettings {
  readonly namespace: string
  readonly strict: boolean
  readonly quiet: boolean
  /** Kinds that presets for objects can have as their target. */
  readonly kinds: KindSource
}

/**
 * `kubectl vm lint`: checks each preset as admission does, and reports presets that could conflict on a VM, whether or
 * not such a VM exists. Presets for objects of other kinds are checked with the schema of their kind.
 */
export async function lint(inputs: AsyncIterable<Input>, settings: LintSettings, streams: Streams): Promise<ExitCode> {
  const seen = { unreadable: false, refused: false, warned: false }
  const presets = new Map<string, Linted>()
  const warn = (file: string, text: string): void => {
    seen.warned = true
    if (!settings.quiet) streams.err(warningLine(`${file}: ${text}`))
  }
  let checked = 0
  for await (const input of inputs) {
    if (input.kind !== 'manifest') {
      seen.unreadable = true
      streams.err(errorLine(input.kind === 'xml' ? `${input.file}: is XML, not a preset` : input.message))
      continue
    }
    const isForObjects = isObjectPreset(input.object)
    if (!isForObjects && !isPreset(input.object)) continue
    checked++
    const manifest = inNamespace(input.object, settings.namespace)
    const found = isForObjects ? await lintForObjects(manifest, settings.kinds) : lintOne(manifest)
    for (const text of found.warnings) warn(input.file, text)
    if (found.refusal !== undefined) {
      seen.refused = true
      streams.err(`${inOneLine(input.file)}: ${found.refusal}\n`)
    }
    if (found.preset === undefined || found.kind === undefined) continue
    const { id } = found.preset
    const key = `${String(manifest['kind'])} ${id}`
    const before = presets.get(key)
    if (before !== undefined)
      warn(input.file, `preset "${id}" is also in ${before.file}: only one of the two can be applied`)
    presets.set(key, { file: input.file, preset: found.preset, kind: found.kind })
  }
  for (const { file, text } of overlapsAmong(presets)) warn(file, text)
  if (checked === 0 && !seen.unreadable) {
    seen.unreadable = true
    streams.err(errorLine('no preset found'))
  } else if (checked > 0) streams.out(`${checked} ${checked === 1 ? 'preset' : 'presets'} checked\n`)
  return exitCode(seen, settings.strict)
}

interface Linted {
  readonly file: string
  readonly preset: CompiledPreset
  readonly kind: Kind
}

interface Found {
  readonly preset?: CompiledPreset
  /** The kind of the objects that it is for. */
  readonly kind?: Kind
  readonly refusal?: string
  readonly warnings: readonly string[]
}

const vmKind = virtualMachineKind()

function lintOne(object: Manifest): Found {
  const { causes, ...found } = checkManifest(object)
  if (causes.length === 0) return { ...found, kind: vmKind }
  return { refusal: refusalText(String(object['kind']), nameOf(object), causes), warnings: found.warnings }
}

/** A preset as admission checks it, with what its author should know. It is absent if it is refused. */
export function checkManifest(object: Manifest): {
  readonly preset?: CompiledPreset
  readonly causes: readonly Cause[]
  readonly warnings: readonly string[]
} {
  const parsed = parsePreset(object)
  if ('causes' in parsed) return { causes: parsed.causes, warnings: [] }
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
  return causes.length > 0 ? { causes, warnings: all } : { preset: compileParsed(parsed.preset), causes, warnings: all }
}

async function lintForObjects(object: Manifest, kinds: KindSource): Promise<Found> {
  const [{ compileObjectPreset }, { targetIn }] = await Promise.all([
    import('../presets/object-preset.ts'),
    import('./object-scope.ts'),
  ])
  const target = targetIn(object)
  const compiled = compileObjectPreset(object, target === undefined ? new Map() : await kinds.read([target]))
  if ('quarantined' in compiled) {
    const refusal = refusalText(String(object['kind']), nameOf(object), compiled.quarantined.causes)
    return { refusal, warnings: [] }
  }
  const { preset, kind, warnings } = compiled
  return { preset, kind, warnings: warnings.map((text) => `preset "${nameOf(object)}": ${text}`) }
}

/** Reports each pair once, for the later file. Presets for different kinds never meet. */
function* overlapsAmong(
  presets: ReadonlyMap<string, Linted>,
): Generator<{ readonly file: string; readonly text: string }> {
  const earlier = new Map<Kind, CompiledPreset[]>()
  for (const { file, preset, kind } of presets.values()) {
    const others = earlier.get(kind) ?? []
    for (const overlap of findOverlaps(preset, others, kind.structure).overlaps) {
      yield { file, text: `preset "${preset.id}" ${overlapText(overlap, kind.noun)}` }
    }
    earlier.set(kind, [...others, preset])
  }
}
