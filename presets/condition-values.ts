import { Optional } from '@marcbachmann/cel-js'
import { isRecord } from '../api/schema.ts'
import { takeBytes, takeSteps, type Meter } from './condition-budget.ts'

/** An expression that has no value. No `Error`: a stack for each element that `exists` fails on would cost the most. */
export class Failure {
  readonly message: string
  constructor(message: string) {
    this.message = message
  }
}

/** What it takes to throw and to catch. */
const failureSteps = 100

export function fail(meter: Meter, message: string): never {
  takeSteps(meter, failureSteps)
  // oxlint-disable-next-line typescript/only-throw-error -- see Failure
  throw new Failure(message)
}

export type List = readonly unknown[]
export type CelMap = { readonly [key: string]: unknown }

export const isList = (value: unknown): value is List => Array.isArray(value)
/** Objects of classes (durations, bytes, optional values) are scalars here. */
export const isMap = (value: unknown): value is CelMap =>
  isRecord(value) && (Object.getPrototypeOf(value) === Object.prototype || Object.getPrototypeOf(value) === null)
export const isStructure = (value: unknown): value is List | CelMap => isList(value) || isMap(value)

/** The type's name, without that of its members. */
export function typeName(value: unknown): string {
  if (isList(value)) return 'list'
  if (isMap(value)) return 'map'
  if (value === null) return 'null'
  if (value instanceof Optional) return 'optional'
  if (value instanceof Uint8Array) return 'bytes'
  if (value instanceof Date) return 'google.protobuf.Timestamp'
  const names: { readonly [type: string]: string } = { bigint: 'int', number: 'double', boolean: 'bool' }
  return names[typeof value] ?? (typeof value === 'object' ? value.constructor.name : typeof value)
}

/** What the library takes for one operation on scalars. */
export const operationSteps = 4
/** Characters that V8 copies or compares in one step. */
export const charactersPerStep = 32
/** A reference, and what it refers to where that is a number. */
export const elementBytes = 48
export const entryBytes = 96

type Cost = Readonly<Meter>

export const listCost = (members: number): Cost => ({
  steps: Math.ceil(members / 4),
  bytes: elementBytes * (members + 1),
})
/** Of a map, or of the list of its keys. */
export const mapCost = (members: number): Cost => ({ steps: members, bytes: entryBytes * (members + 1) })
export const textCost = (characters: number): Cost => ({
  steps: Math.ceil(characters / charactersPerStep),
  bytes: 2 * characters + 32,
})

/** Counts what is about to be made. */
export function take(meter: Meter, { steps, bytes }: Cost): void {
  takeBytes(meter, bytes)
  takeSteps(meter, steps)
}

/** The member of a list or map; undefined where there is none. */
export function member(value: unknown, key: unknown, meter: Meter): unknown {
  if (isList(value)) {
    if (typeof key !== 'bigint' && typeof key !== 'number') return undefined
    const found = value[Number(key)]
    if (found !== undefined) return found
    const bound = key < 0 ? '< 0' : `>= size ${value.length}`
    return fail(meter, `No such key: index out of bounds, index ${key} ${bound}`)
  }
  const name = keyText(key)
  return name !== undefined && isMap(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

/** A scalar as the key of a map; undefined of anything else, which could be as long as the budget allows. */
export function keyText(key: unknown): string | undefined {
  if (typeof key === 'string') return key
  return typeof key === 'bigint' || typeof key === 'number' || typeof key === 'boolean' ? `${key}` : undefined
}

/** A member that must be there. */
export function field(value: unknown, key: unknown, meter: Meter): unknown {
  if (value instanceof Optional) return optionalField(value, key, meter)
  const found = member(value, key, meter)
  if (found !== undefined) return found
  return fail(meter, `No such key: ${keyText(key) ?? typeName(key)}`)
}

/** As `.?` and `[?]` have it: what is not there is an empty optional, never an error. */
export function optionalField(value: unknown, key: unknown, meter: Meter): Optional {
  const within: unknown = value instanceof Optional ? value.orValue(undefined) : value
  if (within === undefined) return Optional.none()
  if (isList(within) && !hasIndex(within, key)) return Optional.none()
  const found = member(within, key, meter)
  return found === undefined ? Optional.none() : Optional.of(found)
}

const hasIndex = (list: List, key: unknown): boolean =>
  (typeof key === 'bigint' || typeof key === 'number') && list[Number(key)] !== undefined

/**
 * Lists and maps in lists and maps. Nothing that Kubernetes has is nested half as deeply, and the stack has room for
 * it.
 */
export const deepest = 100

/** Equality of anything: both are followed only as far as they are equal, and each member is a step. */
export function isEqual(
  left: unknown,
  right: unknown,
  meter: Meter,
  isEqualScalar: (left: unknown, right: unknown) => boolean,
  depth = 0,
): boolean {
  takeSteps(meter, 1)
  if (typeof left === 'string' && typeof right === 'string') {
    if (left.length !== right.length) return false
    takeSteps(meter, Math.ceil(left.length / charactersPerStep))
    return left === right
  }
  if (left === right) return true
  if (depth > deepest) return fail(meter, `values nested more than ${deepest} deep cannot be compared`)
  const isEqualMember = (one: unknown, other: unknown) => isEqual(one, other, meter, isEqualScalar, depth + 1)
  if (isList(left) && isList(right)) {
    return left.length === right.length && left.every((item, index) => isEqualMember(item, right[index]))
  }
  if (isMap(left) && isMap(right)) {
    const keys = Object.keys(left)
    takeSteps(meter, keys.length)
    return (
      keys.length === Object.keys(right).length &&
      keys.every((key) => Object.hasOwn(right, key) && isEqualMember(left[key], right[key]))
    )
  }
  if (isStructure(left) || isStructure(right)) return false
  return isEqualScalar(left, right)
}
