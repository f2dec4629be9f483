import { isDeepStrictEqual } from 'node:util'
import type { VirtualMachine } from '../api/machine.ts'
import { shorten } from '../api/refusal.ts'
import type { Paint } from './paint.ts'
import { leavesOf } from './provenance.ts'

/** One leaf of a VM that is not what it was; `undefined` where nothing stood or stands. */
export interface Change {
  readonly path: string
  readonly before?: unknown
  readonly after?: unknown
}

/** What differs between two VMs, leaf by leaf, in the order of the first; what only the second has comes after. */
export function changesBetween(before: VirtualMachine, after: VirtualMachine): readonly Change[] {
  const had = new Map([...leavesOf(before)].map(({ path, value }) => [path, value]))
  const has = new Map([...leavesOf(after)].map(({ path, value }) => [path, value]))
  const changes: Change[] = []
  for (const [path, value] of had) {
    if (!has.has(path)) changes.push({ path, before: value })
    else if (!isDeepStrictEqual(value, has.get(path))) changes.push({ path, before: value, after: has.get(path) })
  }
  for (const [path, value] of has) if (!had.has(path)) changes.push({ path, after: value })
  return changes
}

const maxValue = 60
const text = (value: unknown): string => shorten(JSON.stringify(value), maxValue)

export function changeLine({ path, before, after }: Change, paint: Paint): string {
  if (before === undefined) return paint('green', `+ ${path}: ${text(after)}`)
  if (after === undefined) return paint('red', `- ${path}: ${text(before)}`)
  return paint('yellow', `~ ${path}: ${text(before)} → ${text(after)}`)
}
