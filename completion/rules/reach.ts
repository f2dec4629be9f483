import type { Domain } from '../../api/domain/domain.ts'
import { hostKeys, reachOf, walk } from '../../api/domain/walk.ts'
import { example, type Finding, type Rule } from './rule.ts'

/**
 * Only an operator of the cluster grants access to the host. The rule checks the values of the completed VM: every
 * field that reaches the host must be granted, i.e. set by a cluster preset or filled in by completion itself.
 */
export const reach: Rule = {
  id: 'host-reach',
  description: 'Only a ClusterVirtualMachinePreset can set a field that reaches the host; users cannot.',
  check({ domain, isGranted }) {
    const findings: Finding[] = []
    const granted: string[] = []
    walk(
      domain,
      ({ path, field, value }) => {
        if (reachOf(field, value) !== 'host') return true
        if (isGranted(path)) {
          granted.push(path)
          return true
        }
        const isBelow = typeof value === 'object' && value !== null && Object.keys(value).length > 0
        findings.push({
          field: path,
          ...(isBelow ? {} : { value }),
          reason: 'FieldValueForbidden',
          message: 'reaches the host; only a ClusterVirtualMachinePreset can set it',
          suggestion: 'ask an operator for a ClusterVirtualMachinePreset that injects it',
        })
        // Fields below a forbidden element are not reported again.
        return false
      },
      'spec.domain',
      hostKeys,
    )
    return [...findings, ...checkFormats(domain, granted, isGranted)]
  },
  example: example(
    { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' } }] } },
    { devices: { interfaces: [{ type: 'user' }] } },
  ),
}

/**
 * An image of the host is opened as a raw one, unless a cluster preset states another format. What a guest wrote into a
 * raw image could otherwise be read as a header, which names files that QEMU opens below it.
 */
function* checkFormats(
  domain: Domain,
  granted: readonly string[],
  isGranted: (path: string) => boolean,
): Generator<Finding> {
  if (granted.length === 0) return
  for (const { source, field, format } of imagesOf(domain)) {
    if (format === undefined || format === 'raw' || !granted.some((path) => path.startsWith(`${source}.`))) continue
    if (isGranted(field)) continue
    yield {
      field,
      value: format,
      reason: 'FieldValueForbidden',
      message: 'the image reaches the host, and only a ClusterVirtualMachinePreset can set a format other than raw',
      suggestion: 'ask an operator to set it in the ClusterVirtualMachinePreset that injects the image',
    }
  }
}

interface Image {
  readonly source: string
  readonly field: string
  readonly format: string | undefined
}

/** The images of disks and those below them: where they are, and as what QEMU opens them. */
function* imagesOf({ devices: { disks = [] } = {} }: Domain): Generator<Image> {
  for (const [index, { driver, backingStore }] of disks.entries()) {
    let path = `spec.domain.devices.disks[${index}]`
    yield { source: `${path}.source`, field: `${path}.driver.type`, format: driver?.type }
    for (let image = backingStore; image !== undefined; image = image.backingStore) {
      path += '.backingStore'
      yield { source: `${path}.source`, field: `${path}.format.type`, format: image.format?.type }
    }
  }
}
