import type { LabelRequirement, LabelSelector } from '../api/object.ts'

export type Labels = { readonly [key: string]: string }

/** A compiled selector: all requirements must be met, each on one label key. */
export interface Selector {
  readonly requirements: readonly Requirement[]
}

export interface Requirement {
  readonly key: string
  /** undefined: any value. */
  readonly oneOf?: ReadonlySet<string>
  readonly noneOf?: ReadonlySet<string>
  readonly presence: 'must' | 'may' | 'must not'
}

export const compileSelector = (selector: LabelSelector): Selector => ({
  requirements: [
    ...Object.entries(selector.matchLabels ?? {}).map(([key, value]): Requirement => ({
      key,
      oneOf: new Set([value]),
      presence: 'must',
    })),
    ...(selector.matchExpressions ?? []).map(compileRequirement),
  ],
})

const stored = new WeakMap<LabelSelector, Selector>()

/** Compiles the selector of a cached object only once, because such an object never changes. */
export function compileStoredSelector(selector: LabelSelector): Selector {
  const known = stored.get(selector) ?? compileSelector(selector)
  stored.set(selector, known)
  return known
}

function compileRequirement({ key, operator, values = [] }: LabelRequirement): Requirement {
  switch (operator) {
    case 'In':
      return { key, oneOf: new Set(values), presence: 'must' }
    case 'NotIn':
      // As in Kubernetes, a missing key is not in any set.
      return { key, noneOf: new Set(values), presence: 'may' }
    case 'Exists':
      return { key, presence: 'must' }
    case 'DoesNotExist':
      return { key, presence: 'must not' }
  }
}

export const isSelected = (selector: Selector, labels: Labels): boolean =>
  selector.requirements.every((requirement) => isMet(requirement, labels))

/** The first requirement that is not met, to explain why a selector does not match. */
export const unmetRequirement = (selector: Selector, labels: Labels): Requirement | undefined =>
  selector.requirements.find((requirement) => !isMet(requirement, labels))

function isMet({ key, oneOf, noneOf, presence }: Requirement, labels: Labels): boolean {
  const value = Object.hasOwn(labels, key) ? labels[key] : undefined
  if (value === undefined) return presence !== 'must'
  if (presence === 'must not') return false
  return (oneOf === undefined || oneOf.has(value)) && !(noneOf?.has(value) ?? false)
}

/** Formats a requirement as kubectl does: `size=small`, `size in (a,b)`, `!gpu`. */
export function requirementText({ key, oneOf, noneOf, presence }: Requirement): string {
  if (presence === 'must not') return `!${key}`
  if (oneOf !== undefined) return oneOf.size === 1 ? `${key}=${[...oneOf].join()}` : `${key} in (${[...oneOf].join()})`
  return noneOf === undefined ? key : `${key} notin (${[...noneOf].join()})`
}

export const selectorText = ({ requirements }: Selector): string =>
  requirements.length === 0 ? 'every VM' : requirements.map(requirementText).join()

/**
 * Returns labels that all selectors match, or undefined if there are none. Contains only the keys that the selectors
 * require.
 */
export function commonLabels(selectors: readonly Selector[]): Labels | undefined {
  const byKey = Map.groupBy(
    selectors.flatMap(({ requirements }) => requirements),
    ({ key }) => key,
  )
  const labels: [string, string][] = []
  for (const [key, requirements] of byKey) {
    const value = commonValue(requirements)
    if (value === undefined) return undefined
    if (value !== absent) labels.push([key, value])
  }
  return Object.fromEntries(labels)
}

const absent = Symbol('absent')

/** A value that meets all requirements on one key; `absent` if it must or may be missing; undefined if none does. */
function commonValue(requirements: readonly Requirement[]): string | typeof absent | undefined {
  const mustBe = requirements.some(({ presence }) => presence === 'must')
  if (requirements.some(({ presence }) => presence === 'must not')) return mustBe ? undefined : absent
  if (!mustBe) return absent
  const forbidden = new Set(requirements.flatMap(({ noneOf }) => [...(noneOf ?? [])]))
  const sets = requirements.flatMap(({ oneOf }) => (oneOf === undefined ? [] : [oneOf]))
  const [first, ...others] = sets
  if (first === undefined) return freshValue(forbidden)
  return [...first].find((value) => !forbidden.has(value) && others.every((set) => set.has(value)))
}

function freshValue(forbidden: ReadonlySet<string>): string {
  for (let number = 0; ; number++) {
    const value = number === 0 ? 'any' : `any-${number}`
    if (!forbidden.has(value)) return value
  }
}
