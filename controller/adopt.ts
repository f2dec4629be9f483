import { quantityNano } from '../api/quantity.ts'
import { isRecord } from '../api/schema.ts'
import type { Pod } from './pod.ts'

/**
 * Where a pod is not the launcher pod that the controller creates; undefined where it is. Such a pod was made by somebody else under the
 * VM's name for it, and must never get the VM.
 *
 * Everything that the controller states must be there. Admission may have added to it (tolerations, limits, a sidecar), but nothing
 * that would run in the launcher's place. Left out is what admission and a new release may change: resources, pull policy, grace period.
 */
export function differenceFrom({ spec: expected }: Pod, { spec }: Pod): string | undefined {
  const [compute] = spec.containers.filter(({ name }) => name === 'compute')
  const replaced = replacing.find((key) => compute !== undefined && Object.hasOwn(compute, key))
  if (replaced !== undefined) return `spec.containers[compute].${replaced}`
  const { terminationGracePeriodSeconds: _grace, containers, ...rest } = expected
  const stated = containers.map(({ resources: _resources, imagePullPolicy: _policy, ...container }) => container)
  return firstMissing({ ...rest, containers: stated }, spec, 'spec')
}

const replacing = ['command', 'args', 'lifecycle']

/** The path of the first thing that is stated and does not stand; items of lists may stand anywhere, beside others. */
function firstMissing(stated: unknown, found: unknown, path: string): string | undefined {
  if (Array.isArray(stated)) {
    const items: readonly unknown[] = Array.isArray(found) ? found : []
    for (const [index, item] of stated.entries()) {
      const at = `${path}[${nameOf(item) ?? index}]`
      const missing = items.map((one) => firstMissing(item, one, at))
      if (missing.includes(undefined)) continue
      // What its namesake lacks says more than that there is none.
      return missing.find((_, place) => nameOf(item) !== undefined && nameOf(items[place]) === nameOf(item)) ?? at
    }
    return undefined
  }
  if (isRecord(stated)) {
    for (const [key, value] of Object.entries(stated)) {
      const missing = firstMissing(value, isRecord(found) ? found[key] : undefined, `${path}.${key}`)
      if (missing !== undefined) return missing
    }
    return isRecord(found) ? undefined : path
  }
  return stated === found || isSameQuantity(stated, found) ? undefined : path
}

const nameOf = (item: unknown): string | undefined =>
  isRecord(item) && typeof item['name'] === 'string' ? item['name'] : undefined

/** The API server writes `1000000` as `1M`. */
const isSameQuantity = (stated: unknown, found: unknown): boolean =>
  typeof stated === 'string' &&
  typeof found === 'string' &&
  quantityNano(stated) !== undefined &&
  quantityNano(stated) === quantityNano(found)
