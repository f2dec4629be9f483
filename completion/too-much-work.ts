import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { sizeOf } from '../api/steps.ts'
import { maxNamed } from '../presets/abridge.ts'
import type { InjectOptions } from '../presets/inject.ts'

export const tooMuchWorkRule = 'too-much-work'

/** The cause for a VM whose completion is too much work: how many values it and its presets have, the largest first. */
export function tooMuchWork(
  { metadata, spec }: VirtualMachine,
  { presets, namespace }: Pick<InjectOptions, 'presets' | 'namespace'>,
  limit: number,
): Cause {
  const selected = presets
    .select(metadata.labels ?? {}, namespace)
    .map(({ id, content }) => ({ id, size: sizeOf(content) }))
    .toSorted((one, other) => other.size - one.size || (one.id < other.id ? -1 : 1))
  const sum = selected.reduce((total, { size }) => total + size, 0)
  const largest = selected.slice(0, maxNamed).map(({ id, size }) => `"${id}" ${count(size)}`)
  const ofPresets = sum === 0 ? '' : `, the presets that select it ${count(sum)} (${largest.join(', ')})`
  return {
    rule: tooMuchWorkRule,
    field: 'spec',
    reason: 'FieldValueTooMany',
    message: `takes more than ${count(limit)} steps to complete, the limit: it has ${count(sizeOf(spec))} values${ofPresets}`,
    suggestion: sum > sizeOf(spec) ? 'shorten the lists of these presets' : 'shorten its lists',
  }
}

const count = (value: number): string => value.toLocaleString('en-US')
