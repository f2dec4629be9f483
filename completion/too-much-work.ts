import type { Cause } from '../api/cause.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { sizeOf } from '../api/steps.ts'
import { maxNamed } from '../presets/abridge.ts'
import type { InjectOptions } from '../presets/inject.ts'

const tooMuchWorkRule = 'too-much-work'

/** The cause for a VM that takes too many steps to complete: the number of values in it and in the largest presets. */
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
  const ofPresets = sum === 0 ? '' : `, and the presets that select it have ${count(sum)} (${largest.join(', ')})`
  return {
    rule: tooMuchWorkRule,
    field: 'spec',
    reason: 'FieldValueTooMany',
    message: `takes more than ${count(limit)} steps to complete: it has ${count(sizeOf(spec))} values${ofPresets}`,
    suggestion: sum > sizeOf(spec) ? 'shorten the lists of these presets' : 'shorten its lists',
  }
}

const count = (value: number): string => value.toLocaleString('en-US')
