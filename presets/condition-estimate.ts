import { serialize, type ASTNode } from '@marcbachmann/cel-js'
import { RE2JS } from 're2js'
import type { Meter } from './condition-budget.ts'
import { callCosts } from './condition-costs.ts'
import { compileCost, largestFound, matchCost, patternBytes } from './condition-pattern.ts'
import { virtualMachineStructure, type Structure } from './structure.ts'
import { partsOf } from './condition-tree.ts'
import {
  charactersPerStep,
  elementBytes,
  entryBytes,
  listCost,
  mapCost,
  operationSteps,
  textCost,
} from './condition-values.ts'

/** The maximum cost of an expression on an ordinary VM, and its most expensive part. */
export interface Estimate extends Readonly<Meter> {
  readonly dearest: string
}

/** The maximum length of lists and of texts in an ordinary VM. */
export const ordinary = { members: 32, characters: 128 }

/** The maximum size of a value. */
interface Size {
  readonly characters: number
  readonly members: number
  /** The largest member. If absent, a member may be as large as any part of a VM. */
  readonly member?: Size
  /** Its structure, if it is a part of a VM. */
  readonly structure?: Structure
  /** Steps to compare it with an equal value. */
  readonly weight: number
}

/** Weights of the parts of an ordinary VM, and of one item of its lists. */
const ordinaryWeight = 1000
const itemWeight = 32

const anything: Size = { ...ordinary, weight: ordinaryWeight }
const scalar: Size = { characters: 0, members: 0, weight: operationSteps + 2 }
const text = (characters: number): Size => ({
  characters,
  members: 0,
  weight: 1 + Math.ceil(characters / charactersPerStep),
})
const list = (members: number, member: Size): Size => ({
  characters: 0,
  members,
  member,
  weight: 1 + members * (member.weight + 1),
})

const ofStructure = (structure: Structure | undefined, weight: number): Size => {
  if (structure === undefined) return { ...anything, weight }
  if (structure.kind === 'leaf') return text(ordinary.characters)
  return { members: ordinary.members, characters: 0, structure, weight }
}

/** The size of the member with that name, or of any member if the name is not known. */
function memberOf({ member, structure, weight }: Size, name?: string): Size {
  if (structure?.kind === 'list') return ofStructure(structure.item, itemWeight)
  if (structure?.kind === 'object' && name !== undefined) return ofStructure(structure.field(name), weight)
  return member ?? anything
}

/** The size of a loop variable: an item of a list or a key of a map. */
function itemOf(size: Size): Size {
  const key = text(ordinary.characters)
  return size.structure?.kind === 'object' ? key : larger(memberOf(size), key)
}

function larger(one: Size, other: Size): Size {
  if (one === other) return one
  const size = {
    characters: Math.max(one.characters, other.characters),
    members: Math.max(one.members, other.members),
    weight: Math.max(one.weight, other.weight),
  }
  if (one.members === 0) return { ...other, ...size }
  if (other.members === 0) return { ...one, ...size }
  if (one.member === undefined || other.member === undefined) return size
  return { ...size, member: larger(one.member, other.member) }
}

/** The size of two concatenated values. */
function joined(one: Size, other: Size): Size {
  return {
    ...larger(one, other),
    characters: one.characters + other.characters,
    members: one.members + other.members,
    weight: one.weight + other.weight,
  }
}

type Names = ReadonlyMap<string, Size>

/**
 * Estimates the maximum cost of an expression on an ordinary VM from the sizes of the values that it handles. The body
 * of a loop counts once per member of the list. A bound name has the size of its value wherever it is used.
 */
export function estimate(ast: ASTNode): Estimate {
  const total: Meter = { steps: 0, bytes: 0 }
  const below = new Map<ASTNode, number>()
  /** @param times how often the part is evaluated */
  const visit = (node: ASTNode, names: Names, times: number): Size => {
    const before = total.steps
    const take = ({ steps, bytes = 0 }: { readonly steps: number; readonly bytes?: number }) => {
      total.steps += times * steps
      total.bytes += times * bytes
    }
    take({ steps: 1 })
    const size = sizeOf(node, {
      names,
      take,
      visit: (part, { variables = names, loops = 1 } = {}) => visit(part, variables, times * loops),
    })
    below.set(node, total.steps - before)
    return size
  }
  visit(ast, new Map(), 1)
  return { ...total, dearest: dearestIn(ast, below) }
}

/** Returns the smallest part that accounts for more than half of the steps. */
function dearestIn(ast: ASTNode, below: ReadonlyMap<ASTNode, number>): string {
  const half = (below.get(ast) ?? 0) / 2
  let node = ast
  for (;;) {
    const next = partsOf(node).find((part) => (below.get(part) ?? 0) > half)
    if (next === undefined) return serialize(node)
    node = next
  }
}

interface Visitor {
  readonly names: Names
  readonly take: (taken: { readonly steps: number; readonly bytes?: number }) => void
  readonly visit: (part: ASTNode, within?: { readonly variables?: Names; readonly loops?: number }) => Size
}

function sizeOf(node: ASTNode, visitor: Visitor): Size {
  const { names, take, visit } = visitor
  switch (node.op) {
    case 'value':
      return typeof node.args === 'string' || node.args instanceof Uint8Array ? text(node.args.length) : scalar
    case 'id':
      return names.get(node.args) ?? roots.get(node.args)?.() ?? scalar
    case 'call':
      return node.args[0] === 'has' ? hasSize(node.args[1], visitor) : callSize(node.args[0], node.args[1], visitor)
    case 'rcall':
      return methodSize(node.args, visitor)
    case 'list':
      take(listCost(node.args.length))
      return list(node.args.length, node.args.map((part) => visit(part)).reduce(larger, scalar))
    case 'map': {
      take(mapCost(node.args.length))
      const members = node.args.flat().map((part) => visit(part))
      return list(node.args.length, members.reduce(larger, scalar))
    }
    case '?:': {
      const [condition, yes, no] = node.args
      visit(condition)
      return larger(visit(yes), visit(no))
    }
    case '.':
      return memberOf(visit(node.args[0]), node.args[1])
    case '.?':
      take({ steps: 1 })
      return memberOf(visit(node.args[0]), node.args[1])
    case '||':
    case '&&':
    case '!_':
    case '-_':
      for (const part of partsOf(node)) visit(part)
      take({ steps: operationSteps })
      return scalar
    default: {
      const [left = scalar, right = scalar] = partsOf(node).map((part) => visit(part))
      return operationSize(node.op, left, right, take)
    }
  }
}

function operationSize(op: ASTNode['op'], left: Size, right: Size, take: Visitor['take']): Size {
  switch (op) {
    case '[]':
    case '[?]':
      take({ steps: 1 })
      return memberOf(left)
    case '+': {
      const both = joined(left, right)
      take(textCost(both.characters))
      take(listCost(both.members))
      take({ steps: operationSteps })
      return both
    }
    case '==':
    case '!=':
      take({ steps: operationSteps + equalSteps(left, right) })
      return scalar
    case 'in':
      take({ steps: operationSteps + right.members * (1 + equalSteps(left, itemOf(right))) })
      return scalar
    default:
      take({ steps: operationSteps + Math.ceil(Math.min(left.characters, right.characters) / charactersPerStep) })
      return scalar
  }
}

const equalSteps = (left: Size, right: Size): number => Math.min(left.weight, right.weight)

function hasSize([path]: readonly ASTNode[], { visit, take }: Visitor): Size {
  if (path !== undefined) visit(path)
  take({ steps: 1 })
  return scalar
}

function callSize(name: string, args: readonly ASTNode[], visitor: Visitor): Size {
  return functionSize(
    `${name}/${args.length}`,
    args.map((part) => visitor.visit(part)),
    visitor,
  )
}

function methodSize([name, of, args]: readonly [string, ASTNode, readonly ASTNode[]], visitor: Visitor): Size {
  const { names, take, visit } = visitor
  const key = `.${name}/${args.length}`
  const [first] = args
  const last = args.at(-1)
  const variable = first?.op === 'id' ? first.args : ''
  if (key === '.bind/3' && args[1] !== undefined && last !== undefined) {
    return visit(last, { variables: new Map([...names, [variable, visit(args[1])]]) })
  }
  const size = visit(of)
  if (loops.has(key)) {
    const item = itemOf(size)
    const within = { variables: new Map([...names, [variable, item]]), loops: size.members }
    const [body = scalar] = args
      .slice(1)
      .map((part) => visit(part, within))
      .slice(-1)
    take({ steps: 2 + 3 * size.members, bytes: (2 * elementBytes + entryBytes) * (size.members + 1) })
    return name === 'map' ? list(size.members, body) : name === 'filter' ? list(size.members, item) : scalar
  }
  if (key === '.or/1' || key === '.orValue/1') return larger(size, first === undefined ? scalar : visit(first))
  const others = args.map((part) => visit(part))
  if (key === '.matches/1') return matchSize(size, first, take)
  return functionSize(key, [size, ...others], visitor)
}

const loops: ReadonlySet<string> = new Set(['.all/2', '.exists/2', '.exists_one/2', '.map/2', '.map/3', '.filter/2'])
const likeVm = (): Size => ({ ...anything, structure: virtualMachineStructure() })
/** The metadata of a namespace is structured like that of a VM. */
const roots: ReadonlyMap<string, () => Size> = new Map([
  ['object', likeVm],
  ['namespaceObject', likeVm],
  ['request', () => anything],
])

function matchSize({ characters }: Size, pattern: ASTNode | undefined, take: Visitor['take']): Size {
  const isWritten = pattern?.op === 'value' && typeof pattern.args === 'string'
  const instructions = isWritten ? RE2JS.compile(String(pattern.args)).programSize() : largestFound
  take({
    steps: matchCost(characters, instructions) + (isWritten ? 0 : compileCost(largestFound)),
    bytes: patternBytes(instructions),
  })
  return scalar
}

function functionSize(key: string, sizes: readonly Size[], { take }: Visitor): Size {
  const [of = scalar, other = scalar] = sizes
  const known = callCosts.get(key)
  if (known !== undefined) {
    const cost = known.cost(sizes.map(({ characters, members }) => Math.max(characters, members)))
    take(cost)
    if (transparent.has(key)) return key === '.of/1' ? other : of
    if (key === '.json/0') return { characters: of.characters, members: of.characters, weight: 2 * of.characters }
    return cost.length === 0 ? scalar : text(cost.length)
  }
  if (key.startsWith('.split/')) {
    const parts = of.characters + 1
    take({ steps: parts + Math.ceil((of.characters * other.characters) / charactersPerStep) })
    take(listCost(parts))
    take(textCost(of.characters))
    take({ steps: 0, bytes: 32 * parts })
    if (key === '.split/2') take({ steps: 2 * parts, bytes: 4 * of.characters + 64 })
    return { ...list(parts, text(of.characters)), weight: 3 * parts }
  }
  const characters = of.members * (memberOf(of).characters + other.characters)
  take({ steps: of.members })
  take(textCost(characters))
  return text(characters)
}

/** Functions that return their receiver or argument unchanged. */
const transparent: ReadonlySet<string> = new Set(['dyn/1', '.of/1', '.value/0'])
