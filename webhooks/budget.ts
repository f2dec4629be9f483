import type { Resources } from '../api/launcher-resources.ts'
import { quantityNano } from '../api/quantity.ts'
import { resource } from '../runtime/resource.ts'
import type { KubeObject } from '../runtime/resource.ts'

type Quantities = Readonly<Record<string, string>>

/** The part of Kubernetes' LimitRange that is read. */
export interface LimitRange extends KubeObject {
  readonly spec?: { readonly limits?: readonly LimitRangeItem[] }
}

interface LimitRangeItem {
  /** `Container`, `Pod` or something that a VM is not. */
  readonly type: string
  readonly max?: Quantities
  readonly min?: Quantities
  /** Limits of containers that have none; the API server fills in `max`. */
  readonly default?: Quantities
  readonly maxLimitRequestRatio?: Quantities
}

/** The part of Kubernetes' ResourceQuota that is read. */
export interface ResourceQuota extends KubeObject {
  readonly spec?: {
    readonly hard?: Quantities
    readonly scopes?: readonly string[]
    readonly scopeSelector?: { readonly matchExpressions?: readonly ScopeExpression[] }
  }
  readonly status?: { readonly hard?: Quantities; readonly used?: Quantities }
}

interface ScopeExpression {
  readonly scopeName: string
  readonly operator: string
  readonly values?: readonly string[]
}

export const limitRanges = resource<LimitRange>({
  group: '',
  version: 'v1',
  plural: 'limitranges',
  kind: 'LimitRange',
  namespaced: true,
})

export const resourceQuotas = resource<ResourceQuota>({
  group: '',
  version: 'v1',
  plural: 'resourcequotas',
  kind: 'ResourceQuota',
  namespaced: true,
})

/** What a namespace allows its pods. */
export interface Budget {
  readonly ranges: readonly LimitRange[]
  readonly quotas: readonly ResourceQuota[]
}

export const noBudget: Budget = { ranges: [], quotas: [] }

/**
 * Why the API server would not let the launcher pod of a VM in as things are, a short line each. Only a warning: quotas are freed and raised, and
 * the VM waits for it.
 * @param resources asks for the pod's, which is done only where there is anything to hold it against
 */
export function budgetWarnings(
  { ranges, quotas }: Budget,
  resources: () => Resources,
  priorityClassName: string | undefined,
): string[] {
  if (ranges.length === 0 && quotas.length === 0) return []
  const { requests, limits: own } = resources()
  const defaults = ranges.flatMap(({ spec }) => itemsOf(spec?.limits, 'Container').map((item) => item.default ?? {}))
  const limits: Quantities = Object.fromEntries([...defaults, own].flatMap((one) => Object.entries(one)))
  return [
    ...['cpu', 'memory'].flatMap((name) => defaultTooLow(name, requests[name], limits[name])),
    ...ranges.flatMap(({ metadata: { name = '' }, spec }) => [
      ...itemsOf(spec?.limits, 'Container').flatMap((item) => rangeWarnings(name, item, requests, limits)),
      // The only container is the whole pod.
      ...itemsOf(spec?.limits, 'Pod').flatMap((item) => rangeWarnings(name, item, requests, limits)),
    ]),
    ...quotas
      .filter((quota) => counts(quota, priorityClassName))
      .flatMap((quota) => quotaWarnings(quota, requests, limits)),
  ]
}

const itemsOf = (limits: readonly LimitRangeItem[] | undefined, type: string): readonly LimitRangeItem[] =>
  (limits ?? []).filter((item) => item.type === type)

const defaultTooLow = (name: string, request = '', limit?: string): string[] =>
  limit !== undefined && nano(request) > nano(limit)
    ? [
        `a LimitRange limits ${name} to ${limit} by default, less than the ${shown(name, request)} that the VM's pod requests`,
      ]
    : []

function rangeWarnings(range: string, item: LimitRangeItem, requests: Quantities, limits: Quantities): string[] {
  const says = (name: string, what: string) => `LimitRange "${range}" would refuse the VM's pod: ${what} ${name}`
  const warnings: string[] = []
  for (const [name, min] of Object.entries(item.min ?? {})) {
    const request = requests[name]
    if (request !== undefined && nano(request) < nano(min)) {
      warnings.push(says(name, `it requests ${shown(name, request)}, less than ${min}, of`))
    }
  }
  for (const [name, max] of Object.entries(item.max ?? {})) {
    const request = requests[name]
    if (request === undefined) continue
    if (nano(request) > nano(max))
      warnings.push(says(name, `it requests ${shown(name, request)}, more than ${max}, of`))
    else if (limits[name] === undefined) warnings.push(says(name, `it has no limit of`))
    else if (nano(limits[name]) > nano(max))
      warnings.push(says(name, `its limit is ${limits[name]}, more than ${max}, of`))
  }
  for (const [name, ratio] of Object.entries(item.maxLimitRequestRatio ?? {})) {
    const [request, limit] = [requests[name], limits[name]]
    if (request === undefined) continue
    if (limit === undefined) warnings.push(says(name, 'it has no limit of'))
    else if (nano(limit) * 1_000_000_000n > nano(ratio) * nano(request)) {
      warnings.push(says(name, `its limit is more than ${ratio} times its request of`))
    }
  }
  return warnings
}

/** Whether a quota counts a pod that has requests, no deadline, and this priority. */
function counts({ spec }: ResourceQuota, priorityClassName: string | undefined): boolean {
  const plain = (spec?.scopes ?? []).map((scopeName) => ({ scopeName, operator: 'Exists' }))
  return [...plain, ...(spec?.scopeSelector?.matchExpressions ?? [])].every((scope) =>
    isInScope(scope, priorityClassName),
  )
}

function isInScope({ scopeName, operator, values = [] }: ScopeExpression, priority: string | undefined): boolean {
  if (scopeName !== 'PriorityClass') return scopeName === 'NotTerminating' || scopeName === 'NotBestEffort'
  switch (operator) {
    case 'In':
      return priority !== undefined && values.includes(priority)
    case 'NotIn':
      return priority === undefined || !values.includes(priority)
    case 'DoesNotExist':
      return priority === undefined
    default:
      return priority !== undefined
  }
}

function quotaWarnings(
  { metadata: { name = '' }, spec, status }: ResourceQuota,
  requests: Quantities,
  limits: Quantities,
): string[] {
  return Object.entries(status?.hard ?? spec?.hard ?? {}).flatMap(([counted, hard]): string[] => {
    const [kind, resourceName] = countedAs(counted)
    const wanted = kind === 'pods' ? '1' : (kind === 'limits' ? limits : requests)[resourceName]
    if (kind === undefined) return []
    if (wanted === undefined) {
      // Pods without a request of an extended resource take none of it; one without a limit that is counted is refused.
      return kind === 'limits' ? [`ResourceQuota "${name}" counts ${counted}, and the VM's pod has no limit of it`] : []
    }
    const left = nano(hard) - nano(status?.used?.[counted] ?? '0')
    if (nano(wanted) <= left) return []
    const rest = left < 0n ? 0n : left
    return [
      `ResourceQuota "${name}": ${shownNano(resourceName, rest)} of ${hard} ${counted} are left, the VM's pod needs ${shown(resourceName, wanted)}`,
    ]
  })
}

/** What a key of a quota is about: `memory` is `requests.memory`. */
function countedAs(key: string): readonly [kind: 'requests' | 'limits' | 'pods' | undefined, resource: string] {
  if (key === 'pods' || key === 'count/pods') return ['pods', 'pods']
  if (key === 'cpu' || key === 'memory') return ['requests', key]
  const [prefix = ''] = key.split('.', 1)
  const rest = key.slice(prefix.length + 1)
  return prefix === 'requests' || prefix === 'limits' ? [prefix, rest] : [undefined, key]
}

const nano = (quantity: string): bigint => quantityNano(quantity) ?? 0n

const shown = (name: string, quantity: string): string => shownNano(name, nano(quantity))

const billion = 1_000_000_000n
const mebibyte = 1024n * 1024n

/** Memory in MiB, up; CPUs in thousandths where they are not whole. */
function shownNano(name: string, value: bigint): string {
  const whole = (value + billion - 1n) / billion
  if (name === 'memory') return `${(whole + mebibyte - 1n) / mebibyte}Mi`
  return value % billion === 0n ? `${whole}` : `${value / 1_000_000n}m`
}
