import { EvaluationError, Optional } from '@marcbachmann/cel-js'
import type { Meter } from './condition-budget.ts'
import { takeBytes, takeSteps } from './condition-budget.ts'
import { callCosts } from './condition-costs.ts'
import { createConditionEnvironment } from './condition-environment.ts'
import { matchesFound } from './condition-pattern.ts'
import {
  charactersPerStep,
  fail,
  isList,
  isStructure,
  listCost,
  operationSteps,
  take,
  textCost,
  typeName,
} from './condition-values.ts'

type Call = (args: readonly unknown[], meter: Meter) => unknown

/** Functions that replace the library's: those that take or return lists, and `matches`, which uses RE2. */
export const ownFunctions: ReadonlyMap<string, Call> = new Map<string, Call>([
  ['.split/1', ([text, separator], meter) => split('.split/1', [text, separator], meter)],
  ['.split/2', ([text, separator, limit], meter) => splitAtMost(text, separator, limit, meter)],
  ['.join/0', ([list], meter) => join(list, '', meter)],
  ['.join/1', ([list, separator], meter) => join(list, separator, meter)],
  [
    '.matches/1',
    ([text, pattern], meter) => {
      if (typeof text === 'string' && typeof pattern === 'string') return matchesFound(text, pattern, meter)
      return noOverload('.matches/1', [text, pattern], meter)
    },
  ],
])

/** Functions of a list or map. For scalars, the library's own functions are called. */
const ofStructures: ReadonlyMap<string, (structure: readonly unknown[] | object, meter: Meter) => unknown> = new Map<
  string,
  (structure: readonly unknown[] | object, meter: Meter) => unknown
>([
  ['size/1', (value, meter) => BigInt(membersOf(value, meter))],
  ['.size/0', (value, meter) => BigInt(membersOf(value, meter))],
  ['dyn/1', (value) => value],
  ['type/1', (value) => library(isList(value) ? 'list' : 'map')({})],
])

/** The length that determines the cost of a call: characters of a string, bytes of bytes, 0 for anything else. */
export const lengthOf = (value: unknown): number =>
  typeof value === 'string' || value instanceof Uint8Array ? value.length : 0

function membersOf(value: readonly unknown[] | object, meter: Meter): number {
  if (isList(value)) return value.length
  const members = Object.keys(value).length
  takeSteps(meter, members)
  return members
}

/** @param key name and arity, as in `substring/1`; a method's key begins with a dot */
export function functionOf(key: string): Call {
  const own = ownFunctions.get(key)
  if (own !== undefined) return own
  const known = callCosts.get(key)
  if (known === undefined) throw new Error(`${key.replace(/^\.|\/\d+$/g, '')}() cannot be used here`)
  const ofStructure = ofStructures.get(key)
  const source = sourceOf(key)
  return (args, meter) => {
    const [first] = args
    if (ofStructure !== undefined && isStructure(first)) {
      takeSteps(meter, operationSteps)
      return ofStructure(first, meter)
    }
    if (key === '.of/1') return Optional.of(args[1])
    const lengths = args.map(lengthOf)
    const { steps, bytes } = known.cost(lengths)
    takeSteps(meter, steps)
    takeBytes(meter, bytes)
    if (known.longest !== undefined && Math.max(...lengths) > known.longest) {
      return fail(meter, `${key.replace(/\/\d+$/, '')}() takes at most ${known.longest} characters`)
    }
    return callLibrary(source, args, meter)
  }
}

/** Returns the source of a call on variables: `.substring/1` → `a0.substring(a1)`. */
function sourceOf(key: string): string {
  const [name = '', count] = key.split('/')
  const isMethod = name.startsWith('.')
  const args = Array.from({ length: Number(count) }, (_, index) => `a${index + (isMethod ? 1 : 0)}`)
  return `${isMethod ? 'a0' : ''}${name}(${args.join()})`
}

type LibraryCall = (values: { readonly [name: string]: unknown }) => unknown

const libraryCalls = new Map<string, LibraryCall>()
let libraryEnvironment: ReturnType<typeof createConditionEnvironment> | undefined

/** Compiles one operation of the library on the variables `a0`, `a1` and so on. */
export function library(source: string): LibraryCall {
  const known = libraryCalls.get(source)
  if (known !== undefined) return known
  libraryEnvironment ??= ['a0', 'a1', 'a2', 'a3'].reduce(
    (environment, name) => environment.registerVariable(name, 'dyn'),
    createConditionEnvironment(),
  )
  const call = libraryEnvironment.parse(source)
  libraryCalls.set(source, call)
  return call
}

/** Scalars only: the library would cache a type for each shape of list or map, and traverse it without a limit. */
export function callLibrary(source: string, args: readonly unknown[], meter: Meter): unknown {
  if (args.some(isStructure)) return noOverload(source, args, meter)
  try {
    return library(source)({ a0: args[0], a1: args[1], a2: args[2], a3: args[3] })
  } catch (error) {
    takeSteps(meter, libraryErrorSteps)
    return fail(meter, messageOf(error))
  }
}

/** The cost of an error in the library, which captures a stack and renders the expression. */
const libraryErrorSteps = 300

export const messageOf = (error: unknown): string => {
  if (error instanceof EvaluationError) return error.summary
  return error instanceof Error ? error.message : String(error)
}

export const noOverload = (source: string, args: readonly unknown[], meter: Meter): never =>
  fail(meter, `no such overload: ${source} of ${args.map(typeName).join(', ')}`)

function split(key: string, [text, separator]: readonly unknown[], meter: Meter): string[] {
  if (typeof text !== 'string' || typeof separator !== 'string') return noOverload(key, [text, separator], meter)
  const most = separator === '' ? text.length : countOf(text, separator, meter) + 1
  take(meter, listCost(most))
  take(meter, textCost(text.length))
  takeBytes(meter, 32 * most)
  return text.split(separator)
}

function countOf(text: string, found: string, meter: Meter): number {
  takeSteps(meter, Math.ceil((text.length * found.length) / charactersPerStep))
  let count = 0
  for (let at = text.indexOf(found); at >= 0; at = text.indexOf(found, at + found.length)) {
    takeSteps(meter, 1)
    count += 1
  }
  return count
}

function splitAtMost(text: unknown, separator: unknown, limit: unknown, meter: Meter): string[] {
  const parts = split('.split/2', [text, separator], meter)
  if (typeof limit !== 'bigint') return noOverload('.split/2', [text, separator, limit], meter)
  if (limit === 0n) return []
  if (limit < 0n || BigInt(parts.length) <= limit) return parts
  const first = parts.slice(0, Number(limit) - 1)
  return [...first, join(parts.slice(Number(limit) - 1), separator, meter)]
}

function join(list: unknown, separator: unknown, meter: Meter): string {
  if (!isList(list) || typeof separator !== 'string') return noOverload('.join/1', [list, separator], meter)
  takeSteps(meter, list.length)
  let length = separator.length * Math.max(list.length - 1, 0)
  for (const item of list) {
    if (typeof item !== 'string') return fail(meter, 'string.join(separator): list must contain only strings')
    length += item.length
  }
  take(meter, textCost(length))
  return list.join(separator)
}
