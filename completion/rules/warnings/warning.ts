import type { About, Example, Subject } from '../rule.ts'

/** Something that works but is surely not meant. Like a rule, but the VM is taken; kubectl prints each line, which is short. */
export interface Warning {
  readonly id: string
  readonly description: string
  readonly about?: About
  readonly check: (subject: Subject) => Iterable<string>
  readonly example: Example
}
