import { maxNamed } from './abridge.ts'

/** The remaining budget of an evaluation. Counting is deterministic: the same evaluation always has the same cost. */
export interface Meter {
  /** One step takes at most about 0.15 µs (`npm run bench:conditions`). */
  steps: number
  /** Bytes that evaluation allocates, including those that are already garbage. */
  bytes: number
}

/** The limit for the conditions of one preset: enough to compare 64 disks with each other. */
export const presetLimit: Readonly<Meter> = { steps: 100_000, bytes: 4 * 1024 * 1024 }

/** The limit for all cluster presets that select a VM, and separately for all presets of its namespace. */
const scopeLimit: Readonly<Meter> = { steps: 150_000, bytes: 8 * 1024 * 1024 }

export type Resource = keyof Meter
export const resources: readonly Resource[] = ['steps', 'bytes']

/** Thrown if the budget is exhausted. `||`, `&&`, `all` and `exists` absorb errors of an expression, but not this. */
export class OverBudget extends Error {
  readonly resource: Resource
  constructor(resource: Resource) {
    super(`over the budget of ${resource}`)
    this.resource = resource
  }
}

/** @throws OverBudget, also for a negative amount or NaN: a wrong estimate must never add to the budget */
export function takeSteps(meter: Meter, steps: number): void {
  if (!(steps >= 0 && steps <= meter.steps)) throw exhausted(meter, 'steps')
  meter.steps -= steps
}

/** @throws OverBudget as takeSteps does */
export function takeBytes(meter: Meter, bytes: number): void {
  if (!(bytes >= 0 && bytes <= meter.bytes)) throw exhausted(meter, 'bytes')
  meter.bytes -= bytes
}

function exhausted(meter: Meter, resource: Resource): OverBudget {
  meter[resource] = 0
  return new OverBudget(resource)
}

interface Scope {
  readonly left: Meter
  readonly spent: Map<string, Meter>
}

/**
 * The budget of all presets for one VM. Cluster presets and namespaced presets have separate budgets, so that a
 * namespace cannot exhaust the budget of the cluster presets.
 */
export interface Budget {
  readonly cluster: Scope
  readonly namespace: Scope
}

const createScope = (): Scope => ({ left: { ...scopeLimit }, spent: new Map() })

export const createBudget = (): Budget => ({ cluster: createScope(), namespace: createScope() })

interface Spender {
  readonly id: string
  readonly namespace?: string
}

/**
 * Evaluates the conditions of a preset within its own limit and the remaining budget of its scope, and deducts their
 * cost.
 * @param evaluate receives the budget, and a function that explains why the budget was not enough
 */
export function spend<T>(
  budget: Budget,
  spender: Spender,
  evaluate: (meter: Meter, whyOver: (resource: Resource) => string) => T,
): T {
  const { left, spent } = spender.namespace === undefined ? budget.cluster : budget.namespace
  const granted = { steps: Math.min(presetLimit.steps, left.steps), bytes: Math.min(presetLimit.bytes, left.bytes) }
  const meter = { ...granted }
  const took = () => ({ steps: granted.steps - meter.steps, bytes: granted.bytes - meter.bytes })
  const result = evaluate(meter, (resource) =>
    granted[resource] === presetLimit[resource] ? ownFault(resource) : sharedFault(spender, spent, resource),
  )
  spent.set(spender.id, took())
  left.steps -= took().steps
  left.bytes -= took().bytes
  return result
}

const ownFault = (resource: Resource): string =>
  `takes more than ${amount(resource, presetLimit[resource])} on this VM, the limit of one preset`

function sharedFault({ namespace }: Spender, spent: Scope['spent'], resource: Resource): string {
  const scope = namespace === undefined ? 'the cluster' : `namespace "${namespace}"`
  const most = [...spent]
    .toSorted(([, one], [, other]) => other[resource] - one[resource])
    .slice(0, maxNamed)
    .map(([id, took]) => `"${id}" takes ${amount(resource, took[resource])}`)
    .join(', ')
  return `the presets of ${scope} take more than ${amount(resource, scopeLimit[resource])} on this VM together: ${most}`
}

const mebibyte = 1024 * 1024

/** Formats an amount for messages: `100,000 steps`, `4 MiB`. */
export const amount = (resource: Resource, value: number): string =>
  resource === 'steps'
    ? `${Math.round(value).toLocaleString('en-US')} steps`
    : `${(Math.ceil((value / mebibyte) * 10) / 10).toLocaleString('en-US')} MiB`
