import { shorten } from '../../api/shorten.ts'
import type { CompiledPreset } from '../../presets/compile.ts'
import type { Injection } from '../../presets/inject.ts'

/**
 * The maximum length of one annotation. The API server itself sets no limit; only the audit backend limits the size of
 * an event.
 */
const maxCharacters = 2048

/**
 * Audit annotations, which the API server logs with the request as `mutate.virtset.io/KEY`: the presets that were
 * applied, and the fields that presets in mode Audit or Warn would have changed.
 */
export function auditAnnotations({
  participants,
  audit,
}: Pick<Injection, 'participants' | 'audit'>): Readonly<Record<string, string>> {
  const notices = (mode: CompiledPreset['mode']): string =>
    audit
      .filter(({ preset, fields }) => preset.mode === mode && fields.length > 0)
      .map(({ preset, fields }) => `${preset.id}: ${fields.join(', ')}`)
      .join('; ')
  const lines = {
    presets: participants.map(({ preset }) => preset.id).join(', '),
    'presets-audit': notices('Audit'),
    'presets-warn': notices('Warn'),
  }
  return Object.fromEntries(
    Object.entries(lines).flatMap(([key, text]) => (text === '' ? [] : [[key, shorten(text, maxCharacters)]])),
  )
}
