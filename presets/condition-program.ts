import { Optional, type ASTNode } from '@marcbachmann/cel-js'
import { RE2JS } from 're2js'
import type { Meter } from './condition-budget.ts'
import { takeSteps } from './condition-budget.ts'
import { callLibrary, functionOf, lengthOf, library, messageOf, noOverload } from './condition-call.ts'
import { macros } from './condition-macros.ts'
import { matchesWritten, unfoldedLength } from './condition-pattern.ts'
import { attempt, type Frame, type Names, type Run, type Variables } from './condition-run.ts'
import { partsOf } from './condition-tree.ts'
import {
  Failure,
  charactersPerStep,
  fail,
  field,
  isEqual,
  isList,
  isMap,
  keyText,
  listCost,
  mapCost,
  member,
  operationSteps,
  optionalField,
  take,
  textCost,
  typeName,
} from './condition-values.ts'

export interface Program {
  /** @throws OverBudget, Failure */
  readonly run: (variables: Variables, meter: Meter) => unknown
}

/**
 * Compiles a parsed and type-checked expression. It is evaluated here, not by the library, so that each step and each
 * byte is counted before it is spent. For scalars the library's functions are called one at a time; their cost follows
 * from the arguments.
 */
export function compileProgram(ast: ASTNode): Program {
  const run = compile(ast, new Map())
  return { run: (variables, meter) => run({ variables, meter, bound: [] }) }
}

/** Counts the instructions of all literal patterns, without compiling them: `compileProgram` compiles any. */
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

const compileChoice =
  ([condition, yes, no]: readonly Run[], message: string): Run =>
  (frame) => {
    takeSteps(frame.meter, 1)
    const value = condition?.(frame)
    if (value === true) return yes?.(frame)
    if (value === false) return no?.(frame)
    return fail(frame.meter, `${message}, got '${typeName(value)}'`)
  }

/** `||` and `&&`: either side can decide the result alone, even if the other fails. */
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

function compileList(parts: readonly ASTNode[], names: Names): Run {
  const all = parts.map((part) => compile(part, names))
  return (frame) => {
    takeSteps(frame.meter, 1)
    take(frame.meter, listCost(all.length))
    return runAll(all, frame)
  }
}

/** Evaluates the last part first, like the library, so that the same one of several errors is reported. */
function runAll(all: readonly Run[], frame: Frame): unknown[] {
  const values = all.map((): unknown => undefined)
  for (let index = all.length - 1; index >= 0; index--) values[index] = all[index]?.(frame)
  return values
}

/** Keys with a special meaning in JavaScript. The library drops them too. */
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
  if (macro !== undefined) return macro(of, args, { compile, names })
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
    return RE2JS.compile(pattern)
  } catch (error) {
    throw new Error(`invalid regular expression: ${pattern.slice(0, 100)} (${messageOf(error)})`, { cause: error })
  }
}

/** Whether the last field of a path exists. The fields before it must exist, unless a `.?` precedes them. */
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
