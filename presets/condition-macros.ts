import { Optional, type ASTNode } from '@marcbachmann/cel-js'
import type { Meter } from './condition-budget.ts'
import { takeSteps } from './condition-budget.ts'
import { attempt, type Frame, type Names, type Run } from './condition-run.ts'
import { Failure, fail, isList, listCost, mapCost, take, typeName } from './condition-values.ts'

/** Compiles the parts of a macro, given the names that are bound around it. */
interface Scope {
  readonly compile: (part: ASTNode, names: Names) => Run
  readonly names: Names
}

type Macro = (of: ASTNode, args: readonly ASTNode[], scope: Scope) => Run

/** Methods whose arguments are evaluated repeatedly, later or not at all. */
export const macros: ReadonlyMap<string, Macro> = new Map<string, Macro>([
  ['.all/2', (of, args, scope) => quantifier('all', false, of, args, scope)],
  ['.exists/2', (of, args, scope) => quantifier('exists', true, of, args, scope)],
  ['.exists_one/2', existsOne],
  ['.map/2', (of, [variable, value], scope) => collect('map(var, transform)', of, [variable, undefined, value], scope)],
  ['.map/3', (of, args, scope) => collect('map(var, filter, transform) filter', of, args, scope)],
  [
    '.filter/2',
    (of, [variable, test], scope) => collect('filter(var, predicate)', of, [variable, test, variable], scope),
  ],
  ['.bind/3', bind],
  ['.or/1', (of, [other], scope) => orElse('or(optional)', of, other, scope)],
  ['.orValue/1', (of, [other], scope) => orElse('orValue(value)', of, other, scope)],
])

interface Loop {
  readonly items: (frame: Frame) => readonly unknown[]
  /** Binds the loop's variable to an item, and returns the frame. */
  readonly at: (frame: Frame, item: unknown) => Frame
  /** The scope of the parts that are evaluated for each item. */
  readonly scope: Scope
}

function loopOver(of: ASTNode, variable: ASTNode | undefined, scope: Scope): Loop {
  const list = scope.compile(of, scope.names)
  const depth = depthBelow(scope)
  return {
    scope: bound(scope, variable, depth),
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

const bound = ({ compile, names }: Scope, variable: ASTNode | undefined, depth: number): Scope => ({
  compile,
  names: new Map([...names, [nameOf(variable), depth]]),
})

/** Rebinding a name uses a new depth, because the outer binding is needed again later. */
const depthBelow = ({ names }: Scope): number => 1 + Math.max(-1, ...names.values())

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
  scope: Scope,
): Run {
  const loop = loopOver(of, variable, scope)
  const test = compilePart(predicate, loop.scope)
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

const compilePart = (part: ASTNode | undefined, scope: Scope): Run =>
  part === undefined ? neverChecked('an argument is missing') : scope.compile(part, scope.names)

function existsOne(of: ASTNode, [variable, predicate]: readonly ASTNode[], scope: Scope): Run {
  const loop = loopOver(of, variable, scope)
  const test = compilePart(predicate, loop.scope)
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

/** `map` and `filter`: collects `value` for each item for which `test` is true, or for all without a test. */
function collect(
  name: string,
  of: ASTNode,
  [variable, test, value]: readonly (ASTNode | undefined)[],
  scope: Scope,
): Run {
  const loop = loopOver(of, variable, scope)
  const isIn = test === undefined ? undefined : compilePart(test, loop.scope)
  const valueOf = compilePart(value, loop.scope)
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

function bind(_of: ASTNode, [variable, value, within]: readonly ASTNode[], scope: Scope): Run {
  const depth = depthBelow(scope)
  const valueOf = compilePart(value, scope)
  const run = compilePart(within, bound(scope, variable, depth))
  return (frame) => {
    takeSteps(frame.meter, 1)
    frame.bound[depth] = valueOf(frame)
    return run(frame)
  }
}

function orElse(name: string, of: ASTNode, other: ASTNode | undefined, scope: Scope): Run {
  const first = scope.compile(of, scope.names)
  const second = compilePart(other, scope)
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
