import type { Engine } from './engine.ts'
import type { Review, Verdict } from './review.ts'
import type { Reviewer } from './server.ts'
import { hasTemplate, machineReview } from './template.ts'
import { mutate, validate } from './verdict.ts'
import type { Trust } from './verdict.ts'

/** Both webhooks over one engine: waits for permissions only where a review needs them. */
export function createReviewers(
  engine: Engine,
  trust: Trust,
): { readonly mutate: Reviewer; readonly validate: Reviewer } {
  const reviewer =
    (judge: typeof mutate): Reviewer =>
    (review) => {
      const permissions = engine.permissions(hasTemplate(review) ? machineReview(review) : review)
      return permissions === undefined
        ? judge(review, engine, trust)
        : permissions.then((known) => judge(review, engine, trust, known))
    }
  const validating = reviewer(validate)
  // Called here, after the last webhook that can change a preset.
  const noted = (review: Review, verdict: Verdict): Verdict => {
    if (verdict.allowed && !hasTemplate(review)) engine.expect(review)
    return verdict
  }
  return {
    mutate: reviewer(mutate),
    validate(review) {
      const verdict = validating(review)
      return verdict instanceof Promise ? verdict.then((known) => noted(review, known)) : noted(review, verdict)
    },
  }
}

/**
 * Who may write what of a VM users may not: virtset's controller; the webhooks, whose sub-resources start and stop the VMs of configs; and
 * Kubernetes' own, which takes owners away when something is orphaned, under either name that it may go by.
 */
export const trustedAccounts = (namespace: string): readonly string[] => [
  `system:serviceaccount:${namespace}:virtset-controller`,
  `system:serviceaccount:${namespace}:virtset-webhooks`,
  'system:serviceaccount:kube-system:generic-garbage-collector',
  'system:kube-controller-manager',
]
