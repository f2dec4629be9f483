import { serialize } from '@marcbachmann/cel-js'
import { LRUCache } from 'lru-cache'
import { isRecord } from '../api/schema.ts'
import { OverBudget, type Meter, type Resource } from './condition-budget.ts'
import { createConditionEnvironment } from './condition-environment.ts'
import { estimate, type Estimate } from './condition-estimate.ts'
import { flattenTypes } from './condition-types.ts'
import { compileProgram, type Program, type Variables } from './condition-program.ts'
import { Failure } from './condition-values.ts'

export type Result =
  | { readonly isTrue: boolean }
  | { readonly error: string }
  /** Evaluation ended before the result was known. */
  | { readonly over: Resource }

export interface Condition {
  readonly name: string
  readonly expression: string
  /** What it takes at most on an ordinary VM. */
  readonly estimate: Estimate
  /** Instructions of the patterns that it holds. */
  readonly instructions: number
  readonly evaluate: (variables: Variables, meter: Meter) => Result
}

type Compiled = Omit<Condition, 'name'> | { readonly fault: string }

/** Admission compiles the conditions of a preset several times in a row. */
const compiled = new LRUCache<string, Compiled>({ max: 64 })

/** The expression made ready, or what is wrong with it. */
export function compileCondition(name: string, expression: string): Condition | { readonly fault: string } {
  const known = compiled.get(expression) ?? compile(expression)
  compiled.set(expression, known)
  return 'fault' in known ? known : { name, ...known }
}

let environment: ReturnType<typeof createConditionEnvironment> | undefined
/** What is added for the check alone counts for nothing. */
let checker: ReturnType<typeof createConditionEnvironment> | undefined

function compile(expression: string): Compiled {
  const parser = (environment ??= createConditionEnvironment())
  checker ??= parser.clone({ limits: { maxAstNodes: 10_000, maxDepth: 250 } })
  try {
    const flat = flattenTypes(parser.parse(expression).ast, () => parser.parse('dyn(0)').ast)
    const checked = checker.check(serialize(flat))
    if (!checked.valid) return { fault: firstLine(checked.error) }
    if (checked.type !== 'bool' && checked.type !== 'dyn')
      return { fault: `must be true or false, not ${checked.type}` }
    const { ast } = parser.parse(expression)
    const { run, instructions } = compileProgram(ast)
    return { expression, estimate: estimate(ast), instructions, evaluate: (...args) => evaluate(run, ...args) }
  } catch (error) {
    return { fault: firstLine(error) }
  }
}

function evaluate(run: Program['run'], variables: Variables, meter: Meter): Result {
  try {
    const result = run(variables, meter)
    return typeof result === 'boolean' ? { isTrue: result } : { error: `is ${typeof result}, not true or false` }
  } catch (error) {
    if (error instanceof OverBudget) return { over: error.resource }
    if (error instanceof Failure) return { error: firstLine(error) }
    throw error
  }
}

/** Longer messages quote what is in the VM. */
const longestMessage = 200

function firstLine(error: unknown): string {
  const message = error instanceof Error || error instanceof Failure ? error.message : String(error)
  const line = message.split('\n')[0]?.trim() ?? ''
  return line.length > longestMessage ? `${line.slice(0, longestMessage)}…` : line
}

/** JSON as CEL sees it: a number without a fraction is an int. */
export function celValue(value: unknown): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value
  if (Array.isArray(value)) return value.map(celValue)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, celValue(member)]))
}
