import { hostKeys, reachOf, walk } from '../../api/domain/walk.ts'
import { example, type Finding, type Rule } from './rule.ts'

/**
 * What reaches the host below the pod is for a cluster's operator to give. Only the values that stand in the end are judged, and only
 * those that the VM's own user put there: a cluster preset grants by injecting, and what completion fills in is its own.
 */
export const reach: Rule = {
  id: 'host-reach',
  description: 'A field that reaches the host is set by no user, only by a ClusterVirtualMachinePreset.',
  check({ domain, originOf, allowHostReach }) {
    const findings: Finding[] = []
    if (allowHostReach) return findings
    walk(
      domain,
      ({ path, field, value }) => {
        if (reachOf(field, value) !== 'host') return true
        const isBelow = typeof value === 'object' && value !== null && Object.keys(value).length > 0
        const origin = originOf(path)
        const isGranted = origin.by === 'default' || (origin.by === 'preset' && origin.namespace === undefined)
        if (isGranted) return true
        findings.push({
          field: path,
          ...(isBelow ? {} : { value }),
          reason: 'FieldValueForbidden',
          message: 'reaches the host; a VM gets it only from a ClusterVirtualMachinePreset',
          suggestion: 'ask an operator for a ClusterVirtualMachinePreset that injects it',
        })
        // What is below a forbidden element need not be told again.
        return false
      },
      'spec.domain',
      hostKeys,
    )
    return findings
  },
  example: example(
    { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' } }] } },
    { devices: { interfaces: [{ type: 'user' }] } },
  ),
}
