import { kvmResource, type Resources } from '../../api/launcher-resources.ts'
import { quantityNano } from '../../api/quantity.ts'
import { wholeUpTo } from '../../runtime/partial-json.ts'
import { identity, resource } from '../../runtime/resource.ts'
import type { KubeObject, Persisted } from '../../runtime/resource.ts'
import { pick, slimMetadata } from '../../runtime/slim.ts'

type Quantities = Readonly<Record<string, string>>

/** The fields of a LimitRange that matter here. */
export interface LimitRange extends KubeObject {
  readonly spec?: { readonly limits?: readonly LimitRangeItem[] }
}

interface LimitRangeItem {
  /** `Container`, `Pod`, or a type that does not apply to VMs. */
  readonly type: string
  readonly max?: Quantities
  readonly min?: Quantities
  /** For containers without limits; the API server sets it to `max` if absent. */
  readonly default?: Quantities
  readonly maxLimitRequestRatio?: Quantities
}

/** The fields of a ResourceQuota that matter here. */
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

/** Entries of one map of a quota or range; usual ones have ten. */
const maxEntries = 64
/** Items of a range, and scopes of a quota. */
const maxItems = 16

/**
 * Bytes of JSON of a spec or status. Users can make it a megabyte of a hundred thousand names: each replica would take a
 * tenth of a second to parse every change of it.
 */
const maxPart = 16 * 1024
/** What is read of larger ones: what the pods of most VMs have. */
const usualResources = ['cpu', 'memory', 'ephemeral-storage', kvmResource]
const partsOf = (names: readonly string[]) => Object.fromEntries(names.map((name) => [name, true]))
const usualLimits = partsOf(usualResources)
const usualCounts = partsOf([
  'pods',
  'count/pods',
  'cpu',
  'memory',
  ...usualResources.flatMap((name) => [`requests.${name}`, `limits.${name}`]),
])

const limitMaps = ['max', 'min', 'default', 'maxLimitRequestRatio'] as const

export const limitRanges = resource<LimitRange>({
  group: '',
  version: 'v1',
  plural: 'limitranges',
  kind: 'LimitRange',
  namespaced: true,
  read: {
    metadata: identity,
    spec: {
      [wholeUpTo]: maxPart,
      limits: [maxItems, { type: true, ...Object.fromEntries(limitMaps.map((key) => [key, usualLimits])) }],
    },
  },
})

export const resourceQuotas = resource<ResourceQuota>({
  group: '',
  version: 'v1',
  plural: 'resourcequotas',
  kind: 'ResourceQuota',
  namespaced: true,
  read: {
    metadata: identity,
    spec: {
      [wholeUpTo]: maxPart,
      hard: usualCounts,
      scopes: [maxItems, true],
      scopeSelector: {
        matchExpressions: [maxItems, { scopeName: true, operator: true, values: [maxItems, true] }],
      },
    },
    status: { [wholeUpTo]: maxPart, hard: usualCounts, used: usualCounts },
  },
})

/** Of other kinds of warnings, as many are sent. */
const mostWarnings = 32

/** What `quotaWarnings` reads of a quota: not the counts of other objects. */
export function slimQuota({ metadata, spec, status }: Persisted<ResourceQuota>): Persisted<ResourceQuota> {
  const { hard = {}, scopes = [], scopeSelector } = spec ?? {}
  const counted = Object.keys(status?.hard ?? hard).filter((key) => countedAs(key)[0] !== undefined)
  const keys = counted.slice(0, maxEntries)
  const expressions = scopeSelector?.matchExpressions ?? []
  return {
    metadata: slimMetadata(metadata),
    spec: {
      hard: pick(hard, ...keys),
      scopes: scopes.slice(0, maxItems),
      scopeSelector: {
        matchExpressions: expressions
          .slice(0, maxItems)
          .map((expression) => ({ ...expression, values: (expression.values ?? []).slice(0, maxItems) })),
      },
    },
    status: {
      ...(status?.hard === undefined ? {} : { hard: pick(status.hard, ...keys) }),
      used: pick(status?.used ?? {}, ...keys),
    },
  }
}

/** What `quotaWarnings` reads of a range: the limits of pods and containers. */
export function slimRange({ metadata, spec }: Persisted<LimitRange>): Persisted<LimitRange> {
  const items = (spec?.limits ?? []).filter(({ type }) => type === 'Container' || type === 'Pod').slice(0, maxItems)
  const few = (quantities: Quantities) => Object.fromEntries(Object.entries(quantities).slice(0, maxEntries))
  const limits = items.map(({ type, ...maps }) => ({
    type,
    ...Object.fromEntries(limitMaps.flatMap((key) => (maps[key] === undefined ? [] : [[key, few(maps[key])]]))),
  }))
  return { metadata: slimMetadata(metadata), spec: { limits } }
}

/** The limits of a namespace for its pods. */
export interface NamespaceQuota {
  readonly ranges: readonly LimitRange[]
  readonly quotas: readonly ResourceQuota[]
}

export const noQuota: NamespaceQuota = { ranges: [], quotas: [] }

/**
 * Why the API server would reject the VM's launcher pod now, one short line per reason. These are only warnings: quotas
 * are freed and raised, and the VM waits. At most 32.
 * @param resources computes the pod's resources; called only if the namespace has ranges or quotas
 */
export function quotaWarnings(
  { ranges, quotas }: NamespaceQuota,
  resources: () => Resources,
  priorityClassName: string | undefined,
): string[] {
  if (ranges.length === 0 && quotas.length === 0) return []
  const { requests, limits: own } = resources()
  const defaults = ranges.flatMap(({ spec }) => itemsOf(spec?.limits, 'Container').map((item) => item.default ?? {}))
  const limits: Quantities = Object.fromEntries([...defaults, own].flatMap((one) => Object.entries(one)))
  const warnings = [
    ...['cpu', 'memory'].flatMap((name) => defaultTooLow(name, requests[name], limits[name])),
    ...ranges.flatMap(({ metadata: { name = '' }, spec }) => [
      ...itemsOf(spec?.limits, 'Container').flatMap((item) => rangeWarnings(name, item, requests, limits)),
      // The only container is the whole pod.
      ...itemsOf(spec?.limits, 'Pod').flatMap((item) => rangeWarnings(name, item, requests, limits)),
    ]),
    ...quotas
      .filter((quota) => counts(quota, priorityClassName))
      .flatMap((quota) => exceededQuota(quota, requests, limits)),
  ]
  return warnings.slice(0, mostWarnings)
}

/** Users name the resources of their quotas. */
const amountOf = (quantities: Quantities, name: string): string | undefined =>
  Object.hasOwn(quantities, name) ? quantities[name] : undefined

const itemsOf = (limits: readonly LimitRangeItem[] | undefined, type: string): readonly LimitRangeItem[] =>
  (limits ?? []).filter((item) => item.type === type)

const defaultTooLow = (name: string, request = '', limit?: string): string[] =>
  limit !== undefined && nano(request) > nano(limit)
    ? [
        `a LimitRange sets a default ${name} limit of ${limit}, less than the ${shown(name, request)} that the VM's pod requests`,
      ]
    : []

function rangeWarnings(range: string, item: LimitRangeItem, requests: Quantities, limits: Quantities): string[] {
  const rejection = (reason: string) => `LimitRange "${range}" would reject the VM's pod: ${reason}`
  const warnings: string[] = []
  for (const [name, min] of Object.entries(item.min ?? {})) {
    const request = amountOf(requests, name)
    if (request !== undefined && nano(request) < nano(min)) {
      warnings.push(rejection(`it requests ${shown(name, request)} ${name}, less than the minimum of ${min}`))
    }
  }
  for (const [name, max] of Object.entries(item.max ?? {})) {
    const request = amountOf(requests, name)
    if (request === undefined) continue
    const limit = amountOf(limits, name)
    if (nano(request) > nano(max))
      warnings.push(rejection(`it requests ${shown(name, request)} ${name}, more than the maximum of ${max}`))
    else if (limit === undefined) warnings.push(rejection(`it has no ${name} limit`))
    else if (nano(limit) > nano(max))
      warnings.push(rejection(`its ${name} limit of ${limit} is more than the maximum of ${max}`))
  }
  for (const [name, ratio] of Object.entries(item.maxLimitRequestRatio ?? {})) {
    const [request, limit] = [amountOf(requests, name), amountOf(limits, name)]
    if (request === undefined) continue
    if (limit === undefined) warnings.push(rejection(`it has no ${name} limit`))
    else if (nano(limit) * 1_000_000_000n > nano(ratio) * nano(request)) {
      warnings.push(rejection(`its ${name} limit is more than ${ratio} times its request`))
    }
  }
  return warnings.slice(0, mostWarnings)
}

/** Whether a quota counts a pod that has requests, no deadline, and this priority class. */
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

function exceededQuota(
  { metadata: { name = '' }, spec, status }: ResourceQuota,
  requests: Quantities,
  limits: Quantities,
): string[] {
  return Object.entries(status?.hard ?? spec?.hard ?? {}).flatMap(([counted, hard]): string[] => {
    const [kind, resourceName] = countedAs(counted)
    const needed = kind === 'pods' ? '1' : amountOf(kind === 'limits' ? limits : requests, resourceName)
    if (kind === undefined) return []
    if (needed === undefined) {
      // A pod without a request for an extended resource uses none of it; a pod without a counted limit is rejected.
      return kind === 'limits' ? [`ResourceQuota "${name}" counts ${counted}, but the VM's pod has no such limit`] : []
    }
    const left = nano(hard) - nano(amountOf(status?.used ?? {}, counted) ?? '0')
    if (nano(needed) <= left) return []
    const rest = left < 0n ? 0n : left
    return [
      `ResourceQuota "${name}": the VM's pod needs ${shown(resourceName, needed)} ${counted}; ${shownNano(resourceName, rest)} of ${hard} are left`,
    ]
  })
}

/** What a quota's key counts: `memory` means `requests.memory`. */
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

/** Memory in MiB, rounded up; CPUs in thousandths unless they are whole. */
function shownNano(name: string, value: bigint): string {
  const whole = (value + billion - 1n) / billion
  if (name === 'memory') return `${(whole + mebibyte - 1n) / mebibyte}Mi`
  return value % billion === 0n ? `${whole}` : `${value / 1_000_000n}m`
}
