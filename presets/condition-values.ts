import { Optional } from '@marcbachmann/cel-js'
import { isRecord } from '../api/schema.ts'
import { takeBytes, takeSteps, type Meter } from './condition-budget.ts'

/** A failed expression. Not an `Error`: a stack for each element on which `exists` fails would dominate the cost. */
export class Failure {
  readonly message: string
  constructor(message: string) {
    this.message = message
  }
}

/** Steps to throw and catch a Failure. */
const failureSteps = 100

export function fail(meter: Meter, message: string): never {
  takeSteps(meter, failureSteps)
  // oxlint-disable-next-line typescript/only-throw-error -- see Failure
  throw new Failure(message)
}

export type List = readonly unknown[]
export type CelMap = { readonly [key: string]: unknown }

export const isList = (value: unknown): value is List => Array.isArray(value)
/** Class instances (durations, bytes, optional values) are scalars here. */
export const isMap = (value: unknown): value is CelMap =>
  isRecord(value) && Object.getPrototypeOf(value) === Object.prototype
export const isStructure = (value: unknown): value is List | CelMap => isList(value) || isMap(value)

/** The name of a value's type, without the types of its members. */
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

/** Steps of one operation of the library on scalars. */
export const operationSteps = 4
/** Characters that V8 copies or compares per step. */
export const charactersPerStep = 32
/** A reference, and the number that it may refer to. */
export const elementBytes = 48
export const entryBytes = 96

type Cost = Readonly<Meter>

export const listCost = (members: number): Cost => ({
  steps: Math.ceil(members / 4),
  bytes: elementBytes * (members + 1),
})
/** The cost of a map, or of the list of its keys. */
export const mapCost = (members: number): Cost => ({ steps: members, bytes: entryBytes * (members + 1) })
export const textCost = (characters: number): Cost => ({
  steps: Math.ceil(characters / charactersPerStep),
  bytes: 2 * characters + 32,
})

/** Deducts the cost of a value before it is created. */
export function take(meter: Meter, { steps, bytes }: Cost): void {
  takeBytes(meter, bytes)
  takeSteps(meter, steps)
}

/** Returns a member, or undefined if a map has none. An index out of bounds is a Failure. */
export function member(value: unknown, key: unknown, meter: Meter): unknown {
  if (isList(value)) {
    const index = indexOf(key)
    if (index === undefined) return undefined
    const found = value[index]
    if (found !== undefined) return found
    const bound = index < 0 ? '< 0' : `>= size ${value.length}`
    return fail(meter, `No such key: index out of bounds, index ${index} ${bound}`)
  }
  const name = keyText(key)
  return name !== undefined && isMap(value) && Object.hasOwn(value, name) ? value[name] : undefined
}

const indexOf = (key: unknown): number | undefined =>
  typeof key === 'bigint' || typeof key === 'number' ? Number(key) : undefined

/** A scalar as a map key; undefined for anything else, whose text could be as long as the budget allows. */
export function keyText(key: unknown): string | undefined {
  if (typeof key === 'string') return key
  return typeof key === 'bigint' || typeof key === 'number' || typeof key === 'boolean' ? `${key}` : undefined
}

/** Returns a member; a Failure if it does not exist. */
export function field(value: unknown, key: unknown, meter: Meter): unknown {
  if (value instanceof Optional) return optionalField(value, key, meter)
  const found = member(value, key, meter)
  if (found !== undefined) return found
  return fail(meter, `No such key: ${keyText(key) ?? typeName(key)}`)
}

/** Implements `.?` and `[?]`: a missing member is an empty optional, not an error. */
export function optionalField(value: unknown, key: unknown, meter: Meter): Optional {
  const within: unknown = value instanceof Optional ? value.orValue(undefined) : value
  const found = isList(within) ? within[indexOf(key) ?? -1] : member(within, key, meter)
  return found === undefined ? Optional.none() : Optional.of(found)
}

/** The maximum nesting of lists and maps. No Kubernetes object nests half as deeply, and the stack has room for it. */
export const deepest = 100

/** Deep equality. Stops at the first difference; each member is a step. */
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
