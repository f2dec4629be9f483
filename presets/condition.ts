import { serialize, type ASTNode } from '@marcbachmann/cel-js'
import { LRUCache } from 'lru-cache'
import { shorten } from '../api/shorten.ts'
import { OverBudget, type Meter, type Resource } from './condition-budget.ts'
import { createConditionEnvironment } from './condition-environment.ts'
import { estimate, type Estimate } from './condition-estimate.ts'
import { flattenTypes } from './condition-types.ts'
import { largestPattern } from './condition-pattern.ts'
import { compileProgram, writtenInstructions, type Program } from './condition-program.ts'
import type { Variables } from './condition-run.ts'
import { partsOf } from './condition-tree.ts'
import { deepest, Failure } from './condition-values.ts'

export type Result =
  | { readonly isTrue: boolean }
  | { readonly error: string }
  /** The budget was exhausted before the result was known. */
  | { readonly over: Resource }

export interface Condition {
  readonly name: string
  readonly expression: string
  /** The maximum cost on an ordinary VM. */
  readonly estimate: Estimate
  /** Instructions of its literal patterns. */
  readonly instructions: number
  /** Subexpressions. */
  readonly nodes: number
  readonly evaluate: (variables: Variables, meter: Meter) => Result
}

export interface FaultyCondition {
  readonly fault: string
  /** An upper bound of the instructions that were compiled before the fault was found. */
  readonly instructions: number
}

type Compiled = Omit<Condition, 'name'> | FaultyCondition

/** Admission compiles the conditions of a preset several times in a row. */
const compiled = new LRUCache<string, Compiled>({ max: 64 })

/** Compiles an expression. Returns its fault if it is invalid. */
export function compileCondition(name: string, expression: string): Condition | FaultyCondition {
  const known = compiled.get(expression) ?? compile(expression)
  compiled.set(expression, known)
  return 'fault' in known ? known : { name, ...known }
}

let environment: ReturnType<typeof createConditionEnvironment> | undefined
/** Its limits are higher, so that the nodes that `flattenTypes` adds do not count against the expression. */
let checker: ReturnType<typeof createConditionEnvironment> | undefined

function compile(expression: string): Compiled {
  const parser = (environment ??= createConditionEnvironment())
  checker ??= parser.clone({ limits: { maxAstNodes: 10_000, maxDepth: 250 } })
  let instructions = 0
  try {
    const flat = flattenTypes(parser.parse(expression).ast, () => parser.parse('dyn(0)').ast)
    const checked = checker.check(serialize(flat))
    if (!checked.valid) return { fault: firstLine(checked.error), instructions }
    if (checked.type !== 'bool' && checked.type !== 'dyn')
      return { fault: `must be true or false, not ${checked.type}`, instructions }
    const { ast } = parser.parse(expression)
    const written = writtenInstructions(ast)
    if (written > largestPattern) return { fault: patternsFault, instructions }
    instructions = written
    const { run } = compileProgram(ast)
    const nodes = nodesIn(ast)
    return { expression, estimate: estimate(ast), instructions, nodes, evaluate: (...args) => evaluate(run, ...args) }
  } catch (error) {
    return { fault: firstLine(error), instructions }
  }
}

const nodesIn = (node: ASTNode): number => partsOf(node).reduce((sum, part) => sum + nodesIn(part), 1)

const patternsFault =
  `its regular expressions have more than ${largestPattern} instructions, with each repetition written out: ` +
  'use smaller numbers in {}, or no Unicode classes together with (?i)'

function evaluate(run: Program['run'], variables: Variables, meter: Meter): Result {
  try {
    const result = run(variables, meter)
    return typeof result === 'boolean' ? { isTrue: result } : { error: `is ${typeof result}, not true or false` }
  } catch (error) {
    if (error instanceof OverBudget) return { over: error.resource }
    // A stack overflow or another limit of JavaScript fails this evaluation, not the request.
    if (error instanceof Failure || error instanceof RangeError) return { error: firstLine(error) }
    throw error
  }
}

/** Longer messages would quote values of the VM. */
const longestMessage = 200

function firstLine(error: unknown): string {
  const message = error instanceof Error || error instanceof Failure ? error.message : String(error)
  const line = message.split('\n')[0]?.trim() ?? ''
  return shorten(line, longestMessage)
}

/** Placeholder for a list or map that is nested too deeply. No operation of CEL accepts it. */
class TooDeep {}

/** Converts JSON to CEL values: a number without a fraction is an int. */
export function celValue(value: unknown, depth = 0): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value
  if (typeof value !== 'object' || value === null) return value
  if (depth >= deepest) return new TooDeep()
  if (Array.isArray(value)) return value.map((item) => celValue(item, depth + 1))
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, celValue(member, depth + 1)]))
}
