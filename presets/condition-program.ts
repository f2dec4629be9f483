import { EvaluationError, Optional, type ASTNode } from '@marcbachmann/cel-js'
import type { RE2JS } from 're2js'
import type { Meter } from './condition-budget.ts'
import { takeBytes, takeSteps } from './condition-budget.ts'
import { callCosts } from './condition-costs.ts'
import { createConditionEnvironment } from './condition-environment.ts'
import { compilePattern, matchesFound, matchesWritten, unfoldedLength } from './condition-pattern.ts'
import { partsOf } from './condition-tree.ts'
import {
  Failure,
  charactersPerStep,
  fail,
  field,
  isEqual,
  isList,
  isMap,
  isStructure,
  keyText,
  member,
  optionalField,
  listCost,
  mapCost,
  operationSteps,
  take,
  textCost,
  typeName,
} from './condition-values.ts'

/** What an expression may look at, in the words of Kubernetes' own matchConditions. */
export interface Variables {
  readonly object: unknown
  readonly request: unknown
  readonly namespaceObject: unknown
}

interface Frame {
  readonly variables: Variables
  readonly meter: Meter
  /** Values of `bind` and of loops, by the depth at which they are bound. */
  readonly bound: unknown[]
}

type Run = (frame: Frame) => unknown

/** Which depth each name is bound at. */
type Names = ReadonlyMap<string, number>

export interface Program {
  /** @throws OverBudget, Failure */
  readonly run: (variables: Variables, meter: Meter) => unknown
}

/**
 * The library's parser and its type checker have read an expression; it is evaluated here, so that each step and each byte is counted before
 * it is taken. Scalars are left to the library's own functions, one call at a time, of which the cost is known from their arguments.
 */
export function compileProgram(ast: ASTNode): Program {
  const run = compile(ast, new Map())
  return { run: (variables, meter) => run({ variables, meter, bound: [] }) }
}

/** Instructions of the patterns that the expression contains. Known before any of them is compiled. */
export const writtenInstructions = (ast: ASTNode): number =>
  writtenPatterns(ast).reduce((total, pattern) => total + unfoldedLength(pattern), 0)

function compile(node: ASTNode, names: Names): Run {
  switch (node.op) {
    case 'value': {
      const value: unknown = node.args
      return ({ meter }) => (takeSteps(meter, 1), value)
    }
    case 'id':
      return compileName(node.args, names)
    case '.': {
      const [of, key] = [compile(node.args[0], names), node.args[1]]
      return (frame) => (takeSteps(frame.meter, 1), field(of(frame), key, frame.meter))
    }
    case '.?': {
      const [of, key] = [compile(node.args[0], names), node.args[1]]
      return (frame) => (takeSteps(frame.meter, 2), optionalField(of(frame), key, frame.meter))
    }
    case '[]':
      return compileBinary(node.args, names, field)
    case '[?]':
      return compileBinary(node.args, names, optionalField)
    case 'call':
      return compileCall(node.args, names)
    case 'rcall':
      return compileMethod(node.args, names)
    case 'list':
      return compileList(node.args, names)
    case 'map':
      return compileMap(node.args, names)
    case '?:':
      return compileChoice(
        node.args.map((part) => compile(part, names)),
        'Ternary condition must be bool',
      )
    case '||':
      return compileLogic(node.args, names, true)
    case '&&':
      return compileLogic(node.args, names, false)
    case '!_':
      return compileUnary(node.args, names, '!a0')
    case '-_':
      return compileUnary(node.args, names, '-a0')
    case '==':
      return compileBinary(node.args, names, equals)
    case '!=':
      return compileBinary(node.args, names, (left, right, meter) => !equals(left, right, meter))
    case 'in':
      return compileBinary(node.args, names, contains)
    case '+':
      return compileBinary(node.args, names, add)
    case '-':
    case '*':
    case '/':
    case '%':
    case '<':
    case '<=':
    case '>':
    case '>=': {
      const operation = `a0 ${node.op} a1`
      return compileBinary(node.args, names, (left, right, meter) => operate(operation, left, right, meter))
    }
    default:
      throw new Error(`no such operation: ${JSON.stringify(node satisfies never)}`)
  }
}

const roots: ReadonlySet<string> = new Set<keyof Variables>(['object', 'request', 'namespaceObject'])
const isRoot = (name: string): name is keyof Variables => roots.has(name)

function compileName(name: string, names: Names): Run {
  const depth = names.get(name)
  if (depth !== undefined) return ({ meter, bound }) => (takeSteps(meter, 1), bound[depth])
  if (isRoot(name)) {
    return ({ meter, variables }) => {
      takeSteps(meter, 1)
      return variables[name] ?? (variables[name] === null ? null : fail(meter, `Unknown variable: ${name}`))
    }
  }
  const constant: unknown = library(name)({})
  return ({ meter }) => (takeSteps(meter, 1), constant)
}

type Binary = (left: unknown, right: unknown, meter: Meter) => unknown

function compileBinary([one, other]: readonly [ASTNode, ASTNode], names: Names, operation: Binary): Run {
  const left = compile(one, names)
  const right = compile(other, names)
  return (frame) => {
    takeSteps(frame.meter, 1)
    return operation(left(frame), right(frame), frame.meter)
  }
}

function compileUnary(of: ASTNode, names: Names, operation: string): Run {
  const run = compile(of, names)
  return (frame) => {
    const value = run(frame)
    takeSteps(frame.meter, 1)
    if (typeof value === 'boolean' && operation === '!a0') return !value
    return callLibrary(operation, [value], frame.meter)
  }
}

function operate(operation: string, left: unknown, right: unknown, meter: Meter): unknown {
  takeSteps(meter, operationSteps + Math.ceil(Math.min(lengthOf(left), lengthOf(right)) / charactersPerStep))
  return callLibrary(operation, [left, right], meter)
}

function equals(left: unknown, right: unknown, meter: Meter): boolean {
  return isEqual(left, right, meter, (one, other) => {
    if (typeof one === typeof other && typeof one !== 'object') return one === other
    return operate('a0 == a1', one, other, meter) === true
  })
}

function contains(value: unknown, within: unknown, meter: Meter): unknown {
  if (isList(within)) return within.some((item) => equals(value, item, meter))
  if (isMap(within)) return member(within, value, meter) !== undefined
  return operate('a0 in a1', value, within, meter)
}

function add(left: unknown, right: unknown, meter: Meter): unknown {
  if (typeof left === 'string' && typeof right === 'string') {
    take(meter, textCost(left.length + right.length))
    return left + right
  }
  if (isList(left) && isList(right)) {
    take(meter, listCost(left.length + right.length))
    return [...left, ...right]
  }
  if (left instanceof Uint8Array && right instanceof Uint8Array) take(meter, textCost(left.length + right.length))
  return operate('a0 + a1', left, right, meter)
}

const lengthOf = (value: unknown): number =>
  typeof value === 'string' || value instanceof Uint8Array ? value.length : 0

const compileChoice =
  ([condition, yes, no]: readonly Run[], message: string): Run =>
  (frame) => {
    takeSteps(frame.meter, 1)
    const value = condition?.(frame)
    if (value === true) return yes?.(frame)
    if (value === false) return no?.(frame)
    return fail(frame.meter, `${message}, got '${typeName(value)}'`)
  }

/** `||` and `&&`: either side may decide alone, whatever error the other side gives. */
function compileLogic([one, other]: readonly [ASTNode, ASTNode], names: Names, deciding: boolean): Run {
  const left = compile(one, names)
  const right = compile(other, names)
  return (frame) => {
    takeSteps(frame.meter, 1)
    const first = attempt(left, frame)
    if (first === deciding) return deciding
    const second = right(frame)
    if (second === deciding) return deciding
    if (first instanceof Failure) throw first
    for (const value of [second, first]) {
      if (typeof value === 'boolean') continue
      return fail(frame.meter, `Logical operator requires bool operands, got '${typeName(value)}'`)
    }
    return !deciding
  }
}

function attempt(run: Run, frame: Frame): unknown {
  try {
    return run(frame)
  } catch (error) {
    if (error instanceof Failure) return error
    throw error
  }
}

function compileList(parts: readonly ASTNode[], names: Names): Run {
  const all = parts.map((part) => compile(part, names))
  return (frame) => {
    takeSteps(frame.meter, 1)
    take(frame.meter, listCost(all.length))
    return runAll(all, frame)
  }
}

/** From the last to the first, as the library does: of several errors, the same one is reported. */
function runAll(all: readonly Run[], frame: Frame): unknown[] {
  const values = all.map((): unknown => undefined)
  for (let index = all.length - 1; index >= 0; index--) values[index] = all[index]?.(frame)
  return values
}

/** Keys that mean something else to JavaScript. The library drops them, too. */
const droppedKeys: ReadonlySet<string> = new Set(['__proto__', 'constructor', 'prototype'])

function compileMap(entries: readonly (readonly [ASTNode, ASTNode])[], names: Names): Run {
  const all = entries.map(([key, value]) => [compile(key, names), compile(value, names)] as const)
  return (frame) => {
    takeSteps(frame.meter, 1)
    take(frame.meter, mapCost(all.length))
    const map: { [key: string]: unknown } = {}
    for (const [keyOf, valueOf] of all) {
      const key = keyOf(frame)
      const name = keyText(key) ?? fail(frame.meter, `the key of a map must not be of type ${typeName(key)}`)
      const value = valueOf(frame)
      if (!droppedKeys.has(name)) map[name] = value
    }
    return map
  }
}

function compileCall([name, args]: readonly [string, readonly ASTNode[]], names: Names): Run {
  const [only] = args
  if (name === 'has' && only !== undefined) return compileHas(only, names)
  const all = args.map((part) => compile(part, names))
  const call = functionOf(`${name}/${args.length}`)
  return (frame) => {
    takeSteps(frame.meter, 1)
    return call(runAll(all, frame), frame.meter)
  }
}

function compileMethod([name, of, args]: readonly [string, ASTNode, readonly ASTNode[]], names: Names): Run {
  const macro = macros.get(`.${name}/${args.length}`)
  if (macro !== undefined) return macro(of, args, names)
  const all = [of, ...args].map((part) => compile(part, names))
  const pattern = writtenPattern(name, args)
  if (pattern !== undefined) {
    const compiled = compileWritten(pattern)
    return (frame) => {
      takeSteps(frame.meter, 1)
      const text = all[0]?.(frame)
      if (typeof text === 'string') return matchesWritten(text, compiled, frame.meter)
      return noOverload('.matches/1', [text, pattern], frame.meter)
    }
  }
  const call = functionOf(`.${name}/${args.length}`)
  return (frame) => {
    takeSteps(frame.meter, 1)
    return call(runAll(all, frame), frame.meter)
  }
}

const writtenPattern = (name: string, [pattern]: readonly ASTNode[]): string | undefined =>
  name === 'matches' && pattern?.op === 'value' && typeof pattern.args === 'string' ? pattern.args : undefined

function writtenPatterns(node: ASTNode): readonly string[] {
  const own = node.op === 'rcall' ? writtenPattern(node.args[0], node.args[2]) : undefined
  return [...(own === undefined ? [] : [own]), ...partsOf(node).flatMap(writtenPatterns)]
}

function compileWritten(pattern: string): RE2JS {
  try {
    return compilePattern(pattern)
  } catch (error) {
    throw new Error(`no regular expression: ${pattern.slice(0, 100)} (${messageOf(error)})`, { cause: error })
  }
}

/** Whether the last step of a path is there. The steps before it have to be, unless there is a `.?` among them. */
function compileHas(path: ASTNode, names: Names): Run {
  const steps: { readonly key: string; readonly isOptional: boolean }[] = []
  let node = path
  while (node.op === '.' || node.op === '.?') {
    steps.unshift({ key: node.args[1], isOptional: node.op === '.?' })
    node = node.args[0]
  }
  const root = compile(node, names)
  return (frame) => {
    let value = root(frame)
    let isLenient = false
    for (const [index, { key, isOptional }] of steps.entries()) {
      takeSteps(frame.meter, 1)
      isLenient ||= isOptional
      value = value instanceof Optional ? optionalField(value, key, frame.meter) : member(value, key, frame.meter)
      if (value !== undefined) continue
      if (isLenient || index === steps.length - 1) return false
      return fail(frame.meter, `No such key: ${key}`)
    }
    return true
  }
}

type Macro = (of: ASTNode, args: readonly ASTNode[], names: Names) => Run

/** Methods whose arguments are evaluated several times, later or not at all. */
export const macros: ReadonlyMap<string, Macro> = new Map<string, Macro>([
  ['.all/2', (of, args, names) => quantifier('all', false, of, args, names)],
  ['.exists/2', (of, args, names) => quantifier('exists', true, of, args, names)],
  ['.exists_one/2', existsOne],
  ['.map/2', (of, [variable, value], names) => collect('map(var, transform)', of, [variable, undefined, value], names)],
  ['.map/3', (of, args, names) => collect('map(var, filter, transform) filter', of, args, names)],
  [
    '.filter/2',
    (of, [variable, test], names) => collect('filter(var, predicate)', of, [variable, test, variable], names),
  ],
  ['.bind/3', bind],
  ['.or/1', (of, [other], names) => compileOr('or(optional)', of, other, names)],
  ['.orValue/1', (of, [other], names) => compileOr('orValue(value)', of, other, names)],
])

interface Loop {
  readonly items: (frame: Frame) => readonly unknown[]
  /** Runs `body` for an item. */
  readonly at: (frame: Frame, item: unknown) => Frame
  readonly names: Names
}

function loopOver(of: ASTNode, variable: ASTNode | undefined, names: Names): Loop {
  const list = compile(of, names)
  const depth = depthBelow(names)
  return {
    names: new Map([...names, [nameOf(variable), depth]]),
    items: (frame) => {
      takeSteps(frame.meter, 2)
      return itemsOf(list(frame), frame.meter)
    },
    at: (frame, item) => {
      takeSteps(frame.meter, 1)
      frame.bound[depth] = item
      return frame
    },
  }
}

/** A name that is bound again gets a depth of its own: the outer one is needed again later. */
const depthBelow = (names: Names): number => 1 + Math.max(-1, ...names.values())

const nameOf = (variable: ASTNode | undefined): string =>
  variable?.op === 'id' ? variable.args : neverChecked('a variable must be a name')

function neverChecked(message: string): never {
  throw new Error(`the expression was not checked: ${message}`)
}

function itemsOf(value: unknown, meter: Meter): readonly unknown[] {
  if (isList(value)) return value
  if (typeof value !== 'object' || value === null) {
    return fail(
      meter,
      `Expression of type '${typeName(value)}' cannot be range of a comprehension (must be list, map, or dynamic).`,
    )
  }
  if (value instanceof Uint8Array) take(meter, mapCost(value.length))
  const keys = Object.keys(value)
  take(meter, mapCost(keys.length))
  return keys
}

function quantifier(
  name: string,
  deciding: boolean,
  of: ASTNode,
  [variable, predicate]: readonly (ASTNode | undefined)[],
  names: Names,
): Run {
  const loop = loopOver(of, variable, names)
  const test = compilePart(predicate, loop.names)
  return (frame) => {
    let failure: Failure | undefined
    for (const item of loop.items(frame)) {
      const value = attempt(test, loop.at(frame, item))
      if (value === deciding) return deciding
      if (value instanceof Failure) failure ??= value
      else if (typeof value !== 'boolean') failure ??= noBoolean(`${name}(var, predicate)`, value, frame.meter)
    }
    if (failure !== undefined) throw failure
    return !deciding
  }
}

function noBoolean(macro: string, value: unknown, meter: Meter): Failure {
  takeSteps(meter, 1)
  return new Failure(`${macro} predicate must return bool, got '${typeName(value)}'`)
}

const compilePart = (part: ASTNode | undefined, names: Names): Run =>
  part === undefined ? neverChecked('an argument is missing') : compile(part, names)

function existsOne(of: ASTNode, [variable, predicate]: readonly ASTNode[], names: Names): Run {
  const loop = loopOver(of, variable, names)
  const test = compilePart(predicate, loop.names)
  return (frame) => {
    let count = 0
    for (const item of loop.items(frame)) {
      const value = test(loop.at(frame, item))
      if (typeof value !== 'boolean') throw noBoolean('exists_one(var, predicate)', value, frame.meter)
      if (value) count += 1
    }
    return count === 1
  }
}

/** `map` and `filter`: the result of `value` for each item for which `test` is true, or for all without a test. */
function collect(
  name: string,
  of: ASTNode,
  [variable, test, value]: readonly (ASTNode | undefined)[],
  names: Names,
): Run {
  const loop = loopOver(of, variable, names)
  const isIn = test === undefined ? undefined : compilePart(test, loop.names)
  const valueOf = compilePart(value, loop.names)
  return (frame) => {
    const found: unknown[] = []
    for (const item of loop.items(frame)) {
      const at = loop.at(frame, item)
      const isTaken = isIn === undefined || isIn(at)
      if (typeof isTaken !== 'boolean') throw noBoolean(name, isTaken, frame.meter)
      if (!isTaken) continue
      take(frame.meter, listCost(1))
      found.push(valueOf(at))
    }
    return found
  }
}

function bind(_of: ASTNode, [variable, value, within]: readonly ASTNode[], names: Names): Run {
  const depth = depthBelow(names)
  const valueOf = compilePart(value, names)
  const run = compilePart(within, new Map([...names, [nameOf(variable), depth]]))
  return (frame) => {
    takeSteps(frame.meter, 1)
    frame.bound[depth] = valueOf(frame)
    return run(frame)
  }
}

function compileOr(name: string, of: ASTNode, other: ASTNode | undefined, names: Names): Run {
  const first = compile(of, names)
  const second = compilePart(other, names)
  const isValue = name.startsWith('orValue')
  const optional = (value: unknown, what: string, meter: Meter): Optional =>
    value instanceof Optional ? value : fail(meter, `optional.${name} ${what} must be optional`)
  return (frame) => {
    takeSteps(frame.meter, 1)
    const found = optional(first(frame), 'receiver', frame.meter)
    if (found.hasValue()) return isValue ? found.value() : found
    const value = second(frame)
    return isValue ? value : optional(value, 'argument', frame.meter)
  }
}

type Call = (args: readonly unknown[], meter: Meter) => unknown

/** Functions of lists and maps, and those whose result may be larger than what they are given. */
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

/** Of a list or map; of scalars they are the library's. */
const ofStructures: ReadonlyMap<string, (structure: readonly unknown[] | object, meter: Meter) => unknown> = new Map<
  string,
  (structure: readonly unknown[] | object, meter: Meter) => unknown
>([
  ['size/1', (value, meter) => BigInt(membersOf(value, meter))],
  ['.size/0', (value, meter) => BigInt(membersOf(value, meter))],
  ['dyn/1', (value) => value],
  ['type/1', (value) => library(isList(value) ? 'list' : 'map')({})],
])

function membersOf(value: readonly unknown[] | object, meter: Meter): number {
  if (isList(value)) return value.length
  const members = Object.keys(value).length
  takeSteps(meter, members)
  return members
}

function functionOf(key: string): Call {
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

/** `.substring/1` → `a0.substring(a1)`. */
function sourceOf(key: string): string {
  const [name = '', count] = key.split('/')
  const isMethod = name.startsWith('.')
  const args = Array.from({ length: Number(count) }, (_, index) => `a${index + (isMethod ? 1 : 0)}`)
  return `${isMethod ? 'a0' : ''}${name}(${args.join()})`
}

type LibraryCall = (values: { readonly [name: string]: unknown }) => unknown

const libraryCalls = new Map<string, LibraryCall>()
let libraryEnvironment: ReturnType<typeof createConditionEnvironment> | undefined

/** One operation of the library, on `a0`, `a1` and so on. */
function library(source: string): LibraryCall {
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

/** Scalars alone: the library keeps a type for each form of a list or map that it ever saw, and follows them without end. */
function callLibrary(source: string, args: readonly unknown[], meter: Meter): unknown {
  if (args.some(isStructure)) return noOverload(source, args, meter)
  try {
    return library(source)({ a0: args[0], a1: args[1], a2: args[2], a3: args[3] })
  } catch (error) {
    takeSteps(meter, libraryErrorSteps)
    return fail(meter, messageOf(error))
  }
}

/** The library's errors have a stack and a drawing. */
const libraryErrorSteps = 300

const messageOf = (error: unknown): string => {
  if (error instanceof EvaluationError) return error.summary
  return error instanceof Error ? error.message : String(error)
}

const noOverload = (source: string, args: readonly unknown[], meter: Meter): never =>
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
