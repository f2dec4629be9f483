import { isRecord } from '../api/schema.ts'
import type { Container, Pod } from './pod.ts'

/**
 * The path of the first field in which a pod differs from the launcher pod that the controller would create; undefined
 * if there is none. A pod that differs was created by another client under the name of the VM's pod, and must never get
 * the VM.
 *
 * Every field that the controller sets must be there. Admission may have added to the pod (tolerations, limits, a
 * sidecar), but nothing that runs in place of the launcher. Fields that admission or a new release may change are not
 * compared: resources, pull policy, termination message policy, grace period, size limits.
 */
export function differenceFrom({ spec: expected }: Pod, { spec }: Pod): string | undefined {
  const [compute] = spec.containers.filter(({ name }) => name === 'compute')
  const replaced = replacing.find((key) => compute !== undefined && Object.hasOwn(compute, key))
  if (replaced !== undefined) return `spec.containers[compute].${replaced}`
  const { terminationGracePeriodSeconds: _grace, containers, volumes, ...rest } = expected
  const stated = { ...rest, containers: containers.map(compared), volumes: volumes.map(withoutLimit) }
  return firstMissing(stated, spec, 'spec')
}

/** The limit of a download follows the claim's capacity, which is known once the claim is bound. */
function withoutLimit(volume: Pod['spec']['volumes'][number]): object {
  const { emptyDir } = volume
  if (!isRecord(emptyDir)) return volume
  const { sizeLimit: _limit, ...rest } = emptyDir
  return { ...volume, emptyDir: rest }
}

const compared = ({
  resources: _resources,
  imagePullPolicy: _pull,
  terminationMessagePolicy: _message,
  ...container
}: Container): object => container

const replacing = ['command', 'args', 'lifecycle']

/** The path of the first value of `stated` that is missing in `found`. Lists may have more items, in any order. */
function firstMissing(stated: unknown, found: unknown, path: string): string | undefined {
  if (Array.isArray(stated)) {
    const items: readonly unknown[] = Array.isArray(found) ? found : []
    for (const [index, item] of stated.entries()) {
      const at = `${path}[${nameOf(item) ?? index}]`
      const missing = items.map((one) => firstMissing(item, one, at))
      if (missing.includes(undefined)) continue
      // The field that differs in the item of the same name is more precise than the item.
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
  return stated === found ? undefined : path
}

const nameOf = (item: unknown): string | undefined =>
  isRecord(item) && typeof item['name'] === 'string' ? item['name'] : undefined
