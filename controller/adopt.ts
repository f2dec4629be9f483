import { isRecord } from '../api/schema.ts'
import { sizeOf } from '../api/steps.ts'
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
  const [own] = expected.containers
  const [found] = spec.containers.filter(({ name }) => name === own?.name)
  const replaced = replacing.find(
    (key) => found !== undefined && Object.hasOwn(found, key) && own !== undefined && !Object.hasOwn(own, key),
  )
  if (replaced !== undefined) return `spec.containers[${own?.name}].${replaced}`
  const { terminationGracePeriodSeconds: _grace, containers, volumes, ...rest } = expected
  const stated = { ...rest, containers: containers.map(compared), volumes: volumes.map(withoutLimit) }
  const budget = { left: comparisonsPerValue * (sizeOf(stated) + sizeOf(spec)) }
  return firstMissing(stated, spec, 'spec', budget)
}

/**
 * Items are compared with those at the same place first, so a pod as the controller has created it takes one comparison
 * of each value. Another takes at most this many, and then counts as different.
 */
const comparisonsPerValue = 16

interface Budget {
  left: number
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
function firstMissing(stated: unknown, found: unknown, path: string, budget: Budget): string | undefined {
  if (budget.left-- <= 0) return path
  if (Array.isArray(stated)) {
    const items: readonly unknown[] = Array.isArray(found) ? found : []
    for (const [index, item] of stated.entries()) {
      const at = `${path}[${nameOf(item) ?? index}]`
      const isThere = (one: unknown) => firstMissing(item, one, at, budget) === undefined
      if (index < items.length && isThere(items[index])) continue
      if (budget.left > 0 && items.some((one, place) => place !== index && isThere(one))) continue
      // The field that differs in the item of the same name is more precise than the item.
      const name = nameOf(item)
      const same = name === undefined ? undefined : items.find((one) => nameOf(one) === name)
      return same === undefined ? at : (firstMissing(item, same, at, budget) ?? at)
    }
    return undefined
  }
  if (isRecord(stated)) {
    for (const [key, value] of Object.entries(stated)) {
      const one = isRecord(found) ? found[key] : undefined
      if (one === undefined && isOmitted(value, path, key)) continue
      const missing = firstMissing(value, one, `${path}.${key}`, budget)
      if (missing !== undefined) return missing
    }
    return isRecord(found) ? undefined : path
  }
  return stated === found ? undefined : path
}

/**
 * Whether the API server omits this value of a VM from the pod that it stores. An absent field means the same there. It
 * does not elsewhere: an empty label of a node, an empty selector and zero seconds of a toleration must be found.
 */
function isOmitted(value: unknown, path: string, key: string): boolean {
  if (value === '') return path.startsWith('spec.tolerations[')
  // A label with one of these keys has a text as its value.
  if (value === 0) return key === 'initialDelaySeconds'
  return key === 'matchLabels' && isRecord(value) && Object.keys(value).length === 0
}

const nameOf = (item: unknown): string | undefined =>
  isRecord(item) && typeof item['name'] === 'string' ? item['name'] : undefined
