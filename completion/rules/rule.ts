import type { Cause, Origin } from '../../api/cause.ts'
import type { Domain } from '../../api/domain/domain.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import type { Capabilities } from '../../api/capabilities.ts'

export interface RuleContext {
  /** A rule that reads them is checked for each kind of node, all others once. */
  readonly capabilities: Capabilities
  /** The origin of the value at a path (`spec.domain.…`): user, preset or default. */
  readonly originOf: (path: string) => Origin
  /** Whether a cluster preset or completion grants the value at a path that reaches the host. */
  readonly isGranted: (path: string) => boolean
  /** Whether a cluster preset itself states the value; as `isGranted` if absent. */
  readonly isStated?: (path: string) => boolean
  /** Whether a granting preset states another value; none does if absent. */
  readonly isOverruled?: (path: string) => boolean
  /** A leaf without which cluster presets do not grant what is at a path, if that is why. */
  readonly missingAt?: (path: string) => string | undefined
  /** Whether a preset of strength Enforce states the value; if absent, none does. */
  readonly isEnforced?: (path: string) => boolean
  /** Paths of values that were removed because they are invalid by themselves. */
  readonly without?: readonly string[]
  /** Whether the domain will run in a launcher pod. If absent, only what libvirt itself requires is checked. */
  readonly isInPod?: boolean
  /** Whether another VM of the cluster has a MAC address (lower case, with colons); absent if unknown. */
  readonly isMacTaken?: (address: string) => boolean
}

/**
 * The input of a rule: the whole, completed spec. `domain` is `spec.domain` with numbers and booleans parsed, in the
 * same order.
 */
export interface Subject extends RuleContext {
  readonly spec: VirtualMachineSpec
  readonly domain: Domain
}

/**
 * Keys of the domain, at any depth. A rule does not run if the domain has none of them, because most rules check fields
 * that most VMs do not have. Absent: the rule always runs.
 */
export type About = readonly string[]

/** One violation of a rule. The caller adds the id of the rule and the origin of the field. */
export type Finding = Omit<Cause, 'rule' | 'origin'>

/**
 * One requirement. Returns a finding for each place that violates it, and never changes its input. A rule ignores
 * missing values, which are another rule's concern.
 */
export interface Rule {
  /** Part of each cause, e.g. `disk-target-unique`. */
  readonly id: string
  readonly description: string
  readonly about?: About
  readonly check: (subject: Subject) => Iterable<Finding>
  readonly example: Example
}

/** Specs for the reference and the tests, without memory and the values that completion fills in. */
export interface Example {
  readonly breaks: VirtualMachineSpec
  /** The smallest change of `breaks` that holds. */
  readonly holds: VirtualMachineSpec
}

/** An example of domains only. */
export const example = (breaks: Domain, holds: Domain): Example => ({
  breaks: { domain: breaks },
  holds: { domain: holds },
})
