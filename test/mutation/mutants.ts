import { parseSync } from 'rolldown/utils'

/** One change to a file that a test must notice. */
export interface Mutant {
  readonly file: string
  readonly line: number
  readonly start: number
  readonly end: number
  /** The change: `without`, `true`, `false` or the new operator. */
  readonly change: string
  readonly code: string
}

export interface Instrumented {
  /** The source with every mutant in it, behind switches that the runner defines (`runs`, `compares`). */
  readonly code: string
  readonly mutants: readonly Mutant[]
}

interface Node {
  readonly type: string
  readonly start: number
  readonly end: number
  readonly [key: string]: unknown
}

const isNode = (value: unknown): value is Node =>
  typeof value === 'object' && value !== null && 'type' in value && 'start' in value && typeof value.type === 'string'

/** The children of a node in source order, without types. */
const childrenOf = (node: Node): readonly Node[] =>
  Object.values(node)
    .flat()
    .filter(isNode)
    .filter(({ type }) => !type.startsWith('TS') || expressionsWithType.has(type))
    .toSorted((one, other) => one.start - other.start)

const expressionsWithType = new Set(['TSAsExpression', 'TSSatisfiesExpression', 'TSNonNullExpression'])

const opposites: { readonly [operator: string]: string } = {
  '<': '<=',
  '<=': '<',
  '>': '>=',
  '>=': '>',
  '===': '!==',
  '!==': '===',
}

const exits = new Set(['ReturnStatement', 'ContinueStatement', 'BreakStatement', 'ThrowStatement'])

const predicates = new Set(['filter', 'some', 'every', 'find', 'findIndex', 'findLast'])

const elements = new Set(['CallExpression', 'SpreadElement', 'ObjectExpression', 'TemplateLiteral'])

/**
 * Inserts every mutant of a file into its source: omits each statement and each list element, makes each condition true
 * or false, makes each operand of `&&` and `||` ineffective, and moves each comparison's boundary.
 * @param first the number of the file's first mutant
 */
export function instrument(file: string, source: string, first: number): Instrumented {
  const { program, errors } = parseSync(file, source)
  if (errors.length > 0) throw new Error(`${file}: ${errors[0]?.message}`)
  const mutants: Mutant[] = []
  const edits: { readonly at: number; readonly to: number; readonly text: string }[] = []

  const mutate = ({ start, end }: Node, change: string): number => {
    const line = source.slice(0, start).split('\n').length
    const code = source.slice(start, end).replace(/\s+/g, ' ')
    return first - 1 + mutants.push({ file, line, start, end, change, code })
  }
  const insert = (at: number, text: string): unknown => edits.push({ at, to: at, text })
  const wrap = (node: Node, before: string, after: string): void => {
    insert(node.start, before)
    walk(node)
    insert(node.end, after)
  }
  const walk = (node: Node): void => {
    for (const child of childrenOf(node)) visit(child, node)
  }
  /** The expression, or one of `values` for each mutant. */
  const replace = (node: Node, ...values: readonly boolean[]): void => {
    if (node.type === 'LogicalExpression' && node['operator'] !== '??') return walk(node)
    const switches = values.map((value) => `!__mutation.runs(${mutate(node, String(value))}) ? ${value} : `)
    insert(node.start, `(${switches.join('')}(`)
    if (node.type === 'BinaryExpression') boundary(node)
    else walk(node)
    insert(node.end, '))')
  }
  /** A condition that is replaced as a whole has one more mutant if it is an inequality: its boundary. */
  const boundary = (node: Node): void => {
    if (/^[<>]/.test(String(node['operator']))) compare(node)
    else walk(node)
  }
  const compare = (node: Node): void => {
    const { left, right, operator } = node
    const opposite = opposites[String(operator)]
    if (opposite === undefined || !isNode(left) || !isNode(right)) return walk(node)
    insert(left.start, `__mutation.compares(${mutate(node, opposite)}, '${String(operator)}', '${opposite}', `)
    visit(left, node)
    edits.push({ at: left.end, to: right.start, text: ', ' })
    visit(right, node)
    insert(right.end, ')')
  }
  const visit = (node: Node, parent: Node): void => {
    const { type } = node
    if (isRemovable(node, parent)) {
      return wrap(node, `{if (__mutation.runs(${mutate(node, 'without')})) `, '}')
    }
    if (parent.type === 'ArrayExpression' && elements.has(type)) {
      return wrapElement(node)
    }
    if (parent.type === 'IfStatement' && parent['test'] === node) {
      return replace(node, ...(parent['alternate'] ? [true, false] : [!isExit(parent['consequent'])]))
    }
    if (parent.type === 'ConditionalExpression' && parent['test'] === node) return replace(node, true, false)
    if (parent.type === 'LogicalExpression' && parent['operator'] !== '??') {
      return replace(node, parent['operator'] === '&&')
    }
    if (parent.type === 'SwitchCase' && parent['test'] === node) {
      return wrap(node, `(!__mutation.runs(${mutate(node, 'without')}) ? NaN : `, ')')
    }
    if (type === 'BinaryExpression') return compare(node)
    if (type === 'CallExpression' && isPredicate(node)) return walkPredicate(node)
    walk(node)
  }
  const wrapElement = (node: Node): void => {
    insert(node.start, `...(!__mutation.runs(${mutate(node, 'without')}) ? [] : [`)
    if (node.type === 'CallExpression' && isPredicate(node)) walkPredicate(node)
    else walk(node)
    insert(node.end, '])')
  }
  const walkPredicate = (node: Node): void => {
    for (const child of childrenOf(node)) {
      const body = child.type === 'ArrowFunctionExpression' ? child['body'] : undefined
      if (!isNode(body) || body.type === 'BlockStatement' || body.type === 'BinaryExpression') {
        visit(child, node)
        continue
      }
      for (const part of childrenOf(child)) {
        if (part.start === body.start) replace(part, true)
        else visit(part, child)
      }
    }
  }
  walk({ type: 'Root', start: 0, end: source.length, program })

  let code = ''
  let done = 0
  for (const { at, to, text } of edits.toSorted((one, other) => one.at - other.at)) {
    code += source.slice(done, at) + text
    done = to
  }
  return { code: code + source.slice(done), mutants }
}

/**
 * Not mutated: a top-level statement, which runs before any test, and a conditional return, which its condition covers.
 */
const isRemovable = ({ type, argument }: Node, parent: Node): boolean =>
  type === 'ExpressionStatement'
    ? parent.type !== 'Program'
    : type === 'ReturnStatement' && parent.type !== 'IfStatement' && Boolean(argument)

const isExit = (node: unknown): boolean => {
  if (!isNode(node)) return false
  const { body } = node
  return exits.has(node.type) || (node.type === 'BlockStatement' && Array.isArray(body) && isExit(body.at(-1)))
}

const isPredicate = ({ callee }: Node): boolean =>
  isNode(callee) && isNode(callee['property']) && predicates.has(String(callee['property']['name']))
