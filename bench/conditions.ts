import { parseArgs } from 'node:util'
import { presetLimit } from '../presets/condition-budget.ts'
import { celValue, compileCondition, type Condition } from '../presets/condition.ts'

/**
 * The worst-case time of the conditions of one preset. Generates random expressions and changes them step by step
 * towards those that take the most time before their budget ends.
 *
 *     npm run -s bench:conditions -- --seconds 60 --seed 1
 */
const { values } = parseArgs({
  options: { seconds: { type: 'string', default: '30' }, seed: { type: 'string', default: '1' } },
})

/** Mulberry32: the same seed generates the same expressions. */
function createRandom(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}

const random = createRandom(Number(values.seed))
function pick<T>(choices: readonly T[]): T {
  const chosen = choices[Math.floor(random() * choices.length)]
  if (chosen === undefined) throw new Error('nothing to choose from')
  return chosen
}

const long = 'a'.repeat(60_000)
const nested = (depth: number): unknown => (depth === 0 ? 1 : { a: nested(depth - 1), b: [nested(depth - 1)] })
/** As large as a VM can be. */
const variables = {
  object: celValue({
    text: long,
    wide: 'ΐ'.repeat(60_000),
    lines: `${'b'.repeat(20)}\n`.repeat(3000),
    digits: '1'.repeat(60),
    time: '2026-01-02T03:04:05Z',
    zone: 'Europe/Berlin',
    quantity: `${'9'.repeat(200)}e999`,
    pattern: '((a|b)*c|(a|b)*d|[a-z]+){1,20}$',
    json: `[${'{"a":[]},'.repeat(5000)}1]`,
    numbers: Array.from({ length: 4000 }, (_, index) => index),
    texts: Array.from({ length: 4000 }, (_, index) => `text-${index}`),
    same: Array.from({ length: 2000 }, () => long),
    objects: Array.from({ length: 4000 }, () => ({ a: { b: 'c' } })),
    map: Object.fromEntries(Array.from({ length: 4000 }, (_, index) => [`key-${index}`, index])),
    tree: nested(9),
  }),
  request: {},
  namespaceObject: {},
}

interface Node {
  readonly template: string
  readonly parts: readonly Node[]
}

const leaf = (choices: readonly string[]) => (): Node => ({ template: pick(choices), parts: [] })
const texts = leaf([
  'object.text',
  'object.wide',
  'object.lines',
  'object.digits',
  'object.time',
  'object.quantity',
  'object.pattern',
  'object.json',
  '"a"',
  '"aaaab"',
  '""',
  'x',
])
const lists = leaf([
  'object.numbers',
  'object.texts',
  'object.same',
  'object.objects',
  'object.map',
  'object.tree',
  'x',
])
const others = leaf(['1', '-1', '1.5', 'true', 'object', 'object.gone', 'null', 'b"abc"', 'x', 'y'])
const anyLeaf = (): Node => pick([texts, lists, others])()

/** `$0`, `$1`, … are replaced by other expressions. */
const templates: readonly string[] = [
  '($0 + $1)',
  '($0 == $1)',
  '($0 in $1)',
  '($0 < $1)',
  '($0 * $1)',
  '($0 || $1)',
  '($0 && $1)',
  '($0 ? $1 : $2)',
  '(!$0)',
  '(-$0)',
  '$0[$1]',
  '$0[?$1]',
  '$0.a',
  '$0.?a',
  '[$0, $1]',
  '{"a": $0, "b": $1}',
  '$0.all(x, $1)',
  '$0.exists(x, $1)',
  '$0.exists_one(x, $1)',
  '$0.map(x, $1)',
  '$0.map(x, $1, $2)',
  '$0.filter(y, $1)',
  'cel.bind(x, $0, $1)',
  'cel.bind(y, $0, $1)',
  'size($0)',
  '$0.startsWith($1)',
  '$0.endsWith($1)',
  '$0.contains($1)',
  '$0.indexOf($1)',
  '$0.indexOf($1, 1)',
  '$0.lastIndexOf($1)',
  '$0.lowerAscii()',
  '$0.upperAscii()',
  '$0.trim()',
  '$0.substring(1)',
  '$0.substring(1, 40)',
  '$0.matches($1)',
  '$0.matches("([a-z]?){300}[0-9]")',
  '$0.matches("(a|b|ab)*c")',
  '$0.matches("^(.*)(.*)(.*)(.*)x$")',
  '$0.matches("(?i)[^b]*[\\\\pL]{2,20}z")',
  '$0.split($1)',
  '$0.split("")',
  '$0.split($1, 3)',
  '$0.join()',
  '$0.join($1)',
  'string($0)',
  'int($0)',
  'double($0)',
  'bool($0)',
  'bytes($0)',
  'bytes($0).json()',
  'bytes($0).hex()',
  'bytes($0).base64()',
  'string(bytes($0))',
  'timestamp($0)',
  'timestamp($0).getHours("Europe/Berlin")',
  'timestamp(object.time).getMonth(object.zone)',
  'duration($0)',
  'duration("1.5h")',
  'duration(object.digits)',
  'quantity($0)',
  'quantity(object.quantity)',
  'isQuantity($0)',
  'quantity(object.quantity).add(quantity($0))',
  'quantity(object.quantity).isLessThan(quantity(object.quantity))',
  'optional.of($0)',
  'optional.of($0).orValue($1)',
  'type($0)',
  'dyn($0)',
]

function make(depth: number): Node {
  if (depth === 0 || random() < 0.2) return anyLeaf()
  const template = pick(templates)
  const count = [...template.matchAll(/\$\d/g)].length
  return { template, parts: Array.from({ length: count }, () => make(depth - 1)) }
}

function mutate(node: Node): Node {
  if (random() < 0.25 || node.parts.length === 0) return make(3)
  if (random() < 0.2) return { template: '$0.map(x, $1)', parts: [lists(), node] }
  const at = Math.floor(random() * node.parts.length)
  return { ...node, parts: node.parts.map((part, index) => (index === at ? mutate(part) : part)) }
}

const write = ({ template, parts }: Node): string =>
  template.replaceAll(/\$(\d)/g, (_, index: string) => write(parts[Number(index)] ?? { template: '1', parts: [] }))

interface Measured {
  readonly expression: string
  readonly ms: number
  readonly compileMs: number
  readonly steps: number
  readonly bytes: number
}

const timed = <T>(run: () => T): readonly [T, number] => {
  const before = process.cpuUsage()
  const result = run()
  const { user, system } = process.cpuUsage(before)
  return [result, (user + system) / 1000]
}

function run(condition: Condition): { readonly ms: number; readonly steps: number; readonly bytes: number } {
  const meter = { ...presetLimit }
  const [, ms] = timed(() => condition.evaluate(variables, meter))
  return {
    ms,
    steps: presetLimit.steps - Math.max(meter.steps, 0),
    bytes: presetLimit.bytes - Math.max(meter.bytes, 0),
  }
}

function measure(node: Node): Measured | undefined {
  const expression = `cel.bind(x, object.numbers, cel.bind(y, object.text, dyn(${write(node)}) == 1))`
  if (expression.length > 4096) return undefined
  const [condition, compileMs] = timed(() => compileCondition('c', expression))
  if ('fault' in condition) return undefined
  const once = run(condition)
  // The minimum of three excludes compilation by V8 and garbage collection.
  const rest = once.ms < 4 ? [] : [run(condition), run(condition), run(condition)]
  return { expression, compileMs, ...once, ms: Math.min(once.ms, ...rest.map(({ ms }) => ms)) }
}

const population = 24
const endMs = performance.now() + Number(values.seconds) * 1000
let best: { readonly node: Node; readonly measured: Measured }[] = []
let tried = 0
let dearestToCompile: Measured | undefined
while (performance.now() < endMs) {
  const parent = best.length < population || random() < 0.3 ? undefined : pick(best)
  const node = parent === undefined ? make(5) : mutate(parent.node)
  const measured = measure(node)
  if (measured === undefined) continue
  tried += 1
  if (measured.compileMs > (dearestToCompile?.compileMs ?? 0) && tried > 200) dearestToCompile = measured
  best = [...best, { node, measured }]
    .toSorted((one, other) => other.measured.ms - one.measured.ms)
    .slice(0, population)
}
console.log(`${tried} expressions; limit of one preset: ${presetLimit.steps} steps, ${presetLimit.bytes} bytes`)
const seen = new Set<string>()
for (const { measured } of best) {
  if (seen.size > 9) break
  seen.add(measured.expression)
  console.log(
    `${measured.ms.toFixed(1)} ms CPU, ${measured.steps} steps (${((measured.ms * 1e6) / Math.max(measured.steps, 1)).toFixed(0)} ns), ${measured.bytes} bytes: ${measured.expression.slice(0, 300)}`,
  )
}
if (dearestToCompile !== undefined) {
  console.log(
    `compiling: ${dearestToCompile.compileMs.toFixed(1)} ms CPU: ${dearestToCompile.expression.slice(0, 200)}`,
  )
}
