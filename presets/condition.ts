import type { ASTNode } from '@marcbachmann/cel-js'
import { Environment } from '@marcbachmann/cel-js'
import { serialize } from '@marcbachmann/cel-js/serialize'
import { RE2JS } from 're2js'
import { quantityNano } from '../api/quantity.ts'
import { isRecord } from '../api/schema.ts'

/** What an expression may look at, in the words of Kubernetes' own matchConditions. */
export interface Review {
  readonly object: unknown
  readonly request: unknown
  readonly namespaceObject: unknown
  /** What a costly expression is held against; counted once for each review. */
  readonly size: ReviewSize
}

export interface ReviewSize {
  /** Members of the largest list or map. */
  readonly members: number
  /** Characters of the longest string. */
  readonly characters: number
}

export interface Condition {
  readonly name: string
  readonly expression: string
  readonly evaluate: (review: Review) => { readonly isTrue: boolean } | { readonly error: string }
}

/**
 * As many steps as Kubernetes gives one expression (PerCallLimit of k8s.io/apiserver/pkg/apis/cel). Ours is counted before
 * evaluation, as the most that the expression could take on objects of that size.
 */
const costLimit = 10_000_000

class Quantity {
  readonly nano: bigint
  constructor(nano: bigint) {
    this.nano = nano
  }
}

function quantityOf(text: string): Quantity {
  const nano = quantityNano(text)
  if (nano === undefined) throw new Error(`no quantity: ${text}`)
  return new Quantity(nano)
}

const compare = (left: Quantity, right: Quantity): bigint =>
  left.nano < right.nano ? -1n : left.nano > right.nano ? 1n : 0n

const billion = 1_000_000_000n

function wholeUnits({ nano }: Quantity): bigint {
  if (nano % billion !== 0n) throw new Error('the quantity is not a whole number')
  return nano / billion
}

/** Steps of the machine that a pattern is compiled to: each may be taken for each character of the text. */
const maxPatternSteps = 100_000
/** Of a pattern that is not written in the expression, whose cost is not known before. */
const maxFoundPatternSteps = 1000

function compilePattern(pattern: string): RE2JS {
  // Counted before it is compiled: a repetition is as many copies.
  const repeated = [...pattern.matchAll(/[{,](\d+)/g)].reduce((sum, [, count]) => sum + Number(count), 0)
  if (pattern.length * Math.max(repeated, 1) > maxPatternSteps) throw new Error('too large')
  return RE2JS.compile(pattern)
}

const patterns = new Map<string, RE2JS>()
const maxPatterns = 1000

/** A pattern that is a part of the object, or put together: whoever wrote the condition has not seen it. */
function matchesFound(text: string, pattern: string): boolean {
  if (pattern.length > maxFoundPatternSteps || compilePattern(pattern).programSize() > maxFoundPatternSteps) {
    throw new Error('the pattern is too large')
  }
  return matchesLinear(text, pattern)
}

/** In linear time, as Kubernetes has it; JavaScript's own engine can be made to run for hours. */
function matchesLinear(text: string, pattern: string): boolean {
  let compiled = patterns.get(pattern)
  if (compiled === undefined) {
    compiled = compilePattern(pattern)
    if (patterns.size >= maxPatterns) patterns.clear()
    patterns.set(pattern, compiled)
  }
  return compiled.matcher(text).find()
}

/** Kubernetes' functions for quantities (k8s.io/apiserver/pkg/cel/library/quantity.go), and what CEL itself brings. */
const makeEnvironment = () =>
  new Environment({
    enableOptionalTypes: true,
    homogeneousAggregateLiterals: false,
    limits: { maxAstNodes: 1000, maxDepth: 50 },
  })
    .registerVariable('object', 'dyn')
    .registerVariable('request', 'dyn')
    .registerVariable('namespaceObject', 'dyn')
    .registerType('Quantity', Quantity)
    .registerFunction('quantity(string): Quantity', quantityOf)
    .registerFunction('isQuantity(string): bool', (text: string) => quantityNano(text) !== undefined)
    .registerFunction(
      'Quantity.isGreaterThan(Quantity): bool',
      (one: Quantity, other: Quantity) => one.nano > other.nano,
    )
    .registerFunction('Quantity.isLessThan(Quantity): bool', (one: Quantity, other: Quantity) => one.nano < other.nano)
    .registerFunction('Quantity.compareTo(Quantity): int', compare)
    .registerFunction('Quantity.sign(): int', ({ nano }: Quantity) => (nano > 0n ? 1n : nano < 0n ? -1n : 0n))
    .registerFunction('Quantity.isInteger(): bool', ({ nano }: Quantity) => nano % billion === 0n)
    .registerFunction('Quantity.asInteger(): int', wholeUnits)
    .registerFunction('Quantity.asApproximateFloat(): double', ({ nano }: Quantity) => Number(nano) / 1e9)
    .registerFunction(
      'Quantity.add(Quantity): Quantity',
      (one: Quantity, other: Quantity) => new Quantity(one.nano + other.nano),
    )
    .registerFunction(
      'Quantity.sub(Quantity): Quantity',
      (one: Quantity, other: Quantity) => new Quantity(one.nano - other.nano),
    )
    .registerFunction('string.matchesLinear(string): bool', matchesLinear)
    .registerFunction('string.matchesFound(string): bool', matchesFound)

let environment: ReturnType<typeof makeEnvironment> | undefined

/** The expression made ready, or what is wrong with it. */
export function compileCondition(name: string, expression: string): Condition | { readonly fault: string } {
  environment ??= makeEnvironment()
  try {
    const given = environment.parse(expression)
    // Checked as written first, so that a message speaks of `matches` and points to the right place.
    const checked = given.check()
    if (!checked.valid) return { fault: firstLine(checked.error) }
    if (checked.type !== 'bool' && checked.type !== 'dyn')
      return { fault: `must be true or false, not ${checked.type}` }
    const fault = patternFault(given.ast)
    if (fault !== undefined) return { fault }
    const program = environment.parse(serialize(withLinearPatterns(environment.parse(expression).ast)))
    const cost = costOf(given.ast)
    return { name, expression, evaluate: (review) => evaluate(program, cost, review) }
  } catch (error) {
    return { fault: firstLine(error) }
  }
}

function evaluate(
  program: (context: { [key: string]: unknown }) => unknown,
  cost: (size: ReviewSize) => number,
  { object, request, namespaceObject, size }: Review,
): { readonly isTrue: boolean } | { readonly error: string } {
  if (cost(size) > costLimit) return { error: 'would cost too much on an object of this size' }
  try {
    const result = program({ object, request, namespaceObject })
    return typeof result === 'boolean' ? { isTrue: result } : { error: `is ${typeof result}, not true or false` }
  } catch (error) {
    return { error: firstLine(error) }
  }
}

const firstLine = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n')[0]?.trim() ?? ''

/** The direct parts of an expression, with how many loops each stands below this one. */
function partsOf(node: ASTNode): { readonly part: ASTNode; readonly isLooped: boolean }[] {
  const once = (part: ASTNode) => ({ part, isLooped: false })
  switch (node.op) {
    case 'value':
    case 'id':
      return []
    case '.':
    case '.?':
      return [once(node.args[0])]
    case '!_':
    case '-_':
      return [once(node.args)]
    case 'call':
      return node.args[1].map(once)
    case 'rcall': {
      const [name, receiver, args] = node.args
      return [once(receiver), ...args.map((part) => ({ part, isLooped: loops.has(name) }))]
    }
    case 'list':
      return node.args.map(once)
    case 'map':
      return node.args.flat().map(once)
    default:
      return node.args.map(once)
  }
}

const loops: ReadonlySet<string> = new Set([
  'all',
  'exists',
  'exists_one',
  'existsOne',
  'map',
  'filter',
  'transformList',
  'transformMap',
])

/** Every part of an expression, itself included, and below how many loops it stands. */
function* nodesOf(node: ASTNode, loopDepth = 0): Generator<{ readonly node: ASTNode; readonly loopDepth: number }> {
  yield { node, loopDepth }
  for (const { part, isLooped } of partsOf(node)) yield* nodesOf(part, loopDepth + (isLooped ? 1 : 0))
}

/** The most steps that an expression can take on objects of a size: a string costs a step for each ten characters. */
function costOf(ast: ASTNode): (size: ReviewSize) => number {
  const nodes = [...nodesOf(ast)]
  const joins = nodes.filter(({ node }) => node.op === '+')
  const loopedJoins = joins.filter(({ loopDepth }) => loopDepth > 0).length
  // What one loop has joined the next may join with itself.
  const growth = (1 + joins.length - loopedJoins) * 2 ** loopedJoins
  const splits = nodes.some(({ node }) => isCallOf(node, 'split'))
  const passes = new Map(nodes.map(({ node }) => [node, passesOf(node)]))
  return ({ members, characters }) => {
    // A list that the expression writes has no more members than the expression has parts.
    const longest = Math.max(members, nodes.length, splits ? characters : 0) * growth
    let steps = 0
    for (const { node, loopDepth } of nodes) {
      const times = longest ** (loopDepth + (isCallOf(node, 'join') ? 1 : 0))
      steps += times * (1 + ((characters * growth) / 10) * (passes.get(node) ?? 0))
    }
    return steps
  }
}

const isCallOf = (node: ASTNode, name: string): boolean => node.op === 'rcall' && node.args[0] === name

/** How often a part of an expression may look at each character of a text. */
function passesOf(node: ASTNode): number {
  if (!isCallOf(node, 'matches')) return node.op === 'call' || node.op === 'rcall' ? 1 : 0
  const pattern = writtenPattern(node)
  return pattern === undefined ? maxFoundPatternSteps : compilePattern(pattern).programSize()
}

const writtenPattern = (node: ASTNode): string | undefined => {
  const [pattern] = node.op === 'rcall' ? node.args[2] : []
  return pattern?.op === 'value' && typeof pattern.args === 'string' ? pattern.args : undefined
}

function patternFault(ast: ASTNode): string | undefined {
  for (const { node } of nodesOf(ast)) {
    if (!isCallOf(node, 'matches')) continue
    const pattern = writtenPattern(node)
    try {
      if (pattern !== undefined) compilePattern(pattern)
    } catch (error) {
      return `no regular expression: ${pattern?.slice(0, 100)} (${firstLine(error)})`
    }
  }
  return undefined
}

/** The tree with our own function for patterns. Changes `ast`, which nobody else holds. */
function withLinearPatterns(ast: ASTNode): ASTNode {
  for (const { node } of nodesOf(ast)) {
    if (node.op === 'rcall' && isCallOf(node, 'matches')) {
      const name = writtenPattern(node) === undefined ? 'matchesFound' : 'matchesLinear'
      Object.assign(node, { args: [name, node.args[1], node.args[2]] })
    }
  }
  return ast
}

/** JSON as CEL sees it: a number without a fraction is an int. */
export function celValue(value: unknown): unknown {
  if (typeof value === 'number') return Number.isSafeInteger(value) ? BigInt(value) : value
  if (Array.isArray(value)) return value.map(celValue)
  if (!isRecord(value)) return value
  return Object.fromEntries(Object.entries(value).map(([key, member]) => [key, celValue(member)]))
}

export function sizeOf(values: readonly unknown[]): ReviewSize {
  let members = 0
  let characters = 0
  const visit = (value: unknown): void => {
    if (typeof value === 'string') characters = Math.max(characters, value.length)
    if (typeof value !== 'object' || value === null) return
    const parts = Object.values(value)
    members = Math.max(members, parts.length)
    for (const part of parts) visit(part)
  }
  for (const value of values) visit(value)
  return { members, characters }
}
