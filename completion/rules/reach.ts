import { relatedTo } from '../../api/path.ts'
import { hostKeys, reachOf, walk } from '../../api/domain/walk.ts'
import {
  deviceAround,
  deviceGiving,
  grantFields,
  isOptionOfSource,
  nodePaths,
  sourceAround,
} from '../../presets/grant.ts'
import { leavesBelow, valueAtPath } from '../origins.ts'
import { forbidden } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const ungranted = (field: string, value?: unknown, missing?: string): Finding =>
  missing === undefined
    ? forbidden(
        field,
        value,
        'reaches the host; only a ClusterVirtualMachinePreset can set it',
        `${insteadOf(field)}ask an operator for a ClusterVirtualMachinePreset that injects it`,
      )
    : forbidden(
        field,
        value,
        `reaches the host; a ClusterVirtualMachinePreset grants it only with ${missing}, which is missing`,
        'create the VM again',
      )

const beside = (field: string, value: unknown): Finding =>
  forbidden(
    field,
    value,
    'decides what is done to what its device reaches on the host; only a ClusterVirtualMachinePreset can set it',
    'ask an operator to set it in the ClusterVirtualMachinePreset that injects the device',
  )

/** What users of libvirt usually need in place of a file or network of the host. */
function insteadOf(field: string): string {
  if (/^spec\.domain\.devices\.disks\[\d+\]\.source\.(?:file|dev)$/.test(field))
    return 'use a volume of the VM (type: volume), or '
  if (/^spec\.domain\.devices\.interfaces\[\d+\]\.type$/.test(field))
    return 'use the network of the pod (type: user), or '
  return ''
}

/**
 * Only an operator of the cluster grants access to the host. The rule checks the values of the completed VM: every
 * field that reaches the host must be granted, i.e. set by a cluster preset or filled in by completion itself.
 */
export const reach: Rule = {
  id: 'host-reach',
  description: 'Only a ClusterVirtualMachinePreset can set a field that reaches the host; users cannot.',
  check({ spec, domain, isGranted, isStated = isGranted, isOverruled = () => false, missingAt = () => undefined }) {
    // What the VM does not have at this path would count as a default.
    const isGrantedAt = (path: string) => valueAtPath({ spec }, path) !== undefined && isGranted(path)
    const findings: Finding[] = nodePaths(spec)
      .filter((path) => !isGranted(path))
      .map((path) => ungranted(path, undefined, missingAt(path)))
    const sources = new Set<string>()
    const devices = new Set<string | undefined>()
    walk(
      domain,
      ({ path, field, value }) => {
        if (reachOf(field, value) !== 'host') return true
        if (isGrantedAt(path)) {
          const source = sourceAround(path)
          if (source !== undefined) sources.add(source)
          if (isStated(path)) devices.add(deviceGiving(path))
          return true
        }
        const isBelow = typeof value === 'object' && value !== null && Object.keys(value).length > 0
        findings.push(ungranted(path, isBelow ? undefined : value, missingAt(path)))
        // Fields below a forbidden element are not reported again.
        return false
      },
      'spec.domain',
      hostKeys,
    )
    const root = { spec: { domain } }
    const isReported = relatedTo(findings.map(({ field }) => field))
    const ofSources = [...sources]
      .flatMap((source) => leavesBelow(valueAtPath(root, source), source))
      .filter((leaf) => !isOptionOfSource(leaf) && !isReported(leaf) && !isGranted(leaf))
    devices.delete(undefined)
    const ofDevices = (devices.size === 0 ? [] : grantFields(domain)).filter(
      ({ path, isHarmless }) =>
        devices.has(deviceAround(path)) && !(isHarmless && !isOverruled(path)) && !isGranted(path),
    )
    return [
      ...findings,
      ...ofSources.map((leaf) => ungranted(leaf, valueAtPath(root, leaf))),
      ...ofDevices.map(({ path, value }) => beside(path, value)),
    ]
  },
  example: example(
    { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' } }] } },
    { devices: { interfaces: [{ type: 'user' }] } },
  ),
}
