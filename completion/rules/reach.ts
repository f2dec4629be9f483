import { hostKeys, reachOf, walk } from '../../api/domain/walk.ts'
import { example, type Finding, type Rule } from './rule.ts'

/**
 * Only a cluster's operator gives access to the host below the pod. The rule checks the values of the completed VM, and asks for each
 * place that reaches the host whether it was granted: stated by a cluster preset, or filled in by completion itself.
 */
export const reach: Rule = {
  id: 'host-reach',
  description: 'A field that reaches the host is set by no user, only by a ClusterVirtualMachinePreset.',
  check({ domain, isGranted }) {
    const findings: Finding[] = []
    walk(
      domain,
      ({ path, field, value }) => {
        if (reachOf(field, value) !== 'host' || isGranted(path)) return true
        const isBelow = typeof value === 'object' && value !== null && Object.keys(value).length > 0
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
