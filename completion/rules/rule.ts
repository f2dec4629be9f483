import type { Cause, Origin } from '../../api/cause.ts'
import type { Domain } from '../../api/domain/domain.ts'
import type { MachineSpec } from '../../api/machine.ts'
import type { Capabilities } from '../../api/capabilities.ts'

export interface RuleContext {
  readonly capabilities: Capabilities
  /** Who put the value at a path (`spec.domain.…`) where it is. */
  readonly originOf: (path: string) => Origin
  /** Whether what stands at a path that reaches the host was granted. */
  readonly isGranted: (path: string) => boolean
  /** Paths of what is not there because it was wrong by itself. */
  readonly without?: readonly string[]
  /** Whether another VM of the cluster has a MAC address (lower case, with colons); absent where nobody knows. */
  readonly isMacTaken?: (address: string) => boolean
}

/** What a rule sees: the whole, completed spec. `domain` is `spec.domain` with numbers as numbers and words as booleans, in the same order. */
export interface Subject extends RuleContext {
  readonly spec: MachineSpec
  readonly domain: Domain
}

/**
 * Keys of the domain, at whatever depth: where none of them is there the rule has nothing to say, and is not asked. Most rules are about what
 * most VMs do not have. Absent: asked about every VM.
 */
export type About = readonly string[]

/** What a rule finds; its id and the origin of the field are put to it. */
export type Finding = Omit<Cause, 'rule' | 'origin'>

/**
 * One thing that must hold. Reads everything, changes nothing, and tells each place where it does not hold. A rule that misses what
 * it would judge says nothing: that something is missing is another rule's matter.
 */
export interface Rule {
  /** Stands in the cause: `disk-target-unique`. */
  readonly id: string
  readonly description: string
  readonly about?: About
  readonly check: (subject: Subject) => Iterable<Finding>
  readonly example: Example
}

/** For the reference and the tests: specs, but for memory and what completion fills in. */
export interface Example {
  readonly breaks: MachineSpec
  /** As like to the other as can be. */
  readonly holds: MachineSpec
}

/** An example that is about the domain only. */
export const example = (breaks: Domain, holds: Domain): Example => ({
  breaks: { domain: breaks },
  holds: { domain: holds },
})
