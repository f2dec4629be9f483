import type { About, Example, Subject } from '../rule.ts'

/** Like a rule, but the VM is accepted: the value is valid, but probably not intended. kubectl prints each line. */
export interface Warning {
  readonly id: string
  readonly description: string
  readonly about?: About
  readonly check: (subject: Subject) => Iterable<string>
  readonly example: Example
}
