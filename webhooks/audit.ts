import { shorten } from '../api/refusal.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import type { Injection } from '../presets/inject.ts'

/** Of one annotation; the API server bounds an audit event by nothing but its sink. */
const maxCharacters = 2048

/**
 * What the API server writes into its audit log beside a request, as `mutate.virtset.io/KEY`: which presets took part in a VM, and which
 * in mode Audit or Warn would have, with the fields that they would have changed.
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
  const told = Object.entries(lines).filter(([, text]) => text !== '')
  return Object.fromEntries(told.map(([key, text]) => [key, shorten(text, maxCharacters)]))
}
