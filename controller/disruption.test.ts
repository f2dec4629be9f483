import { expect, test } from 'vitest'
import { disruptionOf } from './disruption.ts'

test.each([
  ['EvictionByEvictionAPI', 'the launcher pod was evicted, as `kubectl drain` does'],
  ['DeletionByTaintManager', 'a taint of the node evicted the launcher pod'],
  ['DeletionBySomethingNew', 'the launcher pod is disrupted'],
  // Members of every object.
  ['constructor', 'the launcher pod is disrupted'],
  ['__proto__', 'the launcher pod is disrupted'],
])('the message for a pod with the reason %s', (reason, message) => {
  const conditions = [{ type: 'DisruptionTarget', status: 'True', reason }] as const
  expect(
    disruptionOf({ metadata: { name: 'pod' }, spec: { containers: [], volumes: [] }, status: { conditions } }),
  ).toEqual({ reason, message })
})
