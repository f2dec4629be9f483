import type { Cause } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { MachineSpec } from '../../api/machine.ts'
import { reach } from './reach.ts'
import type { Rule, RuleContext, Subject } from './rule.ts'

/** All rules; their order is the order in which causes are told. */
export const rules: readonly Rule[] = [reach]

/** Everything that is wrong with a completed spec, and what works but is surely not meant. */
export function checkRules(
  spec: MachineSpec,
  context: RuleContext,
): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] } {
  const subject: Subject = { ...context, spec, domain: canonicalSpelling(spec.domain) }
  const causes = rules.flatMap(({ id, check }) =>
    [...check(subject)].map((finding): Cause => ({ rule: id, ...finding, origin: context.originOf(finding.field) })),
  )
  return { causes, warnings: [] }
}
