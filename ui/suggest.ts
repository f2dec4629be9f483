/** A JSON Schema as `kubectl vm schema` prints it. */
export interface JsonSchema {
  readonly $ref?: string
  readonly type?: string | readonly string[]
  readonly description?: string
  readonly const?: string
  readonly enum?: readonly unknown[]
  readonly properties?: { readonly [key: string]: JsonSchema }
  readonly items?: JsonSchema
  readonly additionalProperties?: JsonSchema | boolean
  readonly definitions?: { readonly [name: string]: JsonSchema }
}

/** A text that can replace the one from `from` up to the cursor. */
export interface Suggestions {
  /** In characters from the start of the text. */
  readonly from: number
  readonly options: readonly Suggestion[]
}

export interface Suggestion {
  readonly label: string
  /** What is inserted. */
  readonly text: string
  /** The type of a key's value. */
  readonly type: string
  readonly description: string
}

/**
 * The keys or values that a schema allows at the end of a YAML text: keys that the object does not have yet, or the
 * values of an enumeration. Empty within flow collections, comments and text over several lines.
 * @param before the text up to the cursor @param after the rest, for the keys below
 */
export function suggest(schema: JsonSchema, before: string, after: string): Suggestions {
  const lines = before.split('\n')
  const line = lines.pop() ?? ''
  const rest = after.split('\n').slice(1)
  const key = /^((?:\s|- )*)([\w.-]*)$/.exec(line)
  if (key !== null) {
    const [, indent = '', typed = ''] = key
    const parents = [...lines.map(entriesOf), entriesOf(`${indent}x`).slice(0, -1)].flat()
    const object = schemaAt(schema, pathAbove(parents, indent.length))
    const used = siblings([...lines, line.slice(0, indent.length)], rest, indent.length)
    const options = Object.entries(object?.properties ?? {})
      .filter(([name]) => !used.has(name))
      .map(([name, member]) => keySuggestion(name, resolve(schema, member)))
    return { from: before.length - typed.length, options }
  }
  const value = /^((?:\s|- )*)([\w.-]+): +([\w./-]*)$/.exec(line)
  if (value === null) return { from: before.length, options: [] }
  const [, indent = '', name = '', typed = ''] = value
  const parents = [...lines.map(entriesOf), entriesOf(`${indent}x`).slice(0, -1)].flat()
  const found = schemaAt(schema, [...pathAbove(parents, indent.length), name])
  return { from: before.length - typed.length, options: valuesOf(found).map(valueSuggestion) }
}

/** A key of a mapping, or an item of a list, which starts at a column. */
interface Entry {
  readonly column: number
  /** Undefined for an item. */
  readonly key?: string
}

/** A longer line is text, which another user may have written. To search it takes the square of its length. */
const longestLine = 1000

/** The entries that start in a line: `  - name: a` has an item and a key. */
function entriesOf(line: string): readonly Entry[] {
  if (line.length > longestLine) return []
  const entries: Entry[] = []
  let column = line.search(/\S|$/)
  while (line.startsWith('- ', column) || line.slice(column) === '-') {
    entries.push({ column })
    column += 1 + line.slice(column + 1).search(/\S|$/)
  }
  const key = /^["']?([^\s"'#:[\]{},][^"'#:]*?)["']?\s*(?::\s|:?$)/.exec(line.slice(column))?.[1]
  return key === undefined ? entries : [...entries, { column, key }]
}

/** The path of the object whose keys are at a column, from the entries above it. */
function pathAbove(entries: readonly Entry[], column: number): readonly (string | undefined)[] {
  const path: (string | undefined)[] = []
  // A list can have the column of its key.
  let [limit, isItem] = [column, false]
  for (const entry of entries.toReversed()) {
    const isAbove = entry.column < limit || (isItem && entry.key !== undefined && entry.column === limit)
    if (!isAbove) continue
    path.unshift(entry.key)
    ;[limit, isItem] = [entry.column, entry.key === undefined]
  }
  return path
}

/** The keys that the object at a column has, above and below. */
function siblings(above: readonly string[], below: readonly string[], column: number): ReadonlySet<string> {
  const keys = new Set<string>()
  const collect = (lines: readonly string[], isUpward: boolean) => {
    for (const line of lines) {
      if (line.trim() === '') continue
      const entries = entriesOf(line)
      const own = entries.find((entry) => entry.column === column && entry.key !== undefined)
      const startsItem = entries.some((entry) => entry.column < column)
      if (own?.key !== undefined && (isUpward || !startsItem)) keys.add(own.key)
      if (startsItem) return
    }
  }
  collect(above.toReversed(), true)
  collect(below, false)
  return keys
}

function schemaAt(root: JsonSchema, path: readonly (string | undefined)[]): JsonSchema | undefined {
  let schema: JsonSchema | undefined = root
  for (const key of path) {
    const { properties = {}, items, additionalProperties }: JsonSchema = schema
    const others = typeof additionalProperties === 'object' ? additionalProperties : undefined
    const member: JsonSchema | undefined = key === undefined ? items : (properties[key] ?? others)
    if (member === undefined) return undefined
    schema = resolve(root, member)
  }
  return schema
}

const reference = '#/definitions/'

const resolve = ({ definitions = {} }: JsonSchema, schema: JsonSchema): JsonSchema =>
  schema.$ref?.startsWith(reference) === true ? (definitions[schema.$ref.slice(reference.length)] ?? {}) : schema

function keySuggestion(label: string, { type = '', description = '', items }: JsonSchema): Suggestion {
  const isBlock = type === 'object' || items !== undefined
  return { label, text: isBlock ? `${label}:` : `${label}: `, type: [type].flat().join(' or '), description }
}

function valuesOf(schema: JsonSchema | undefined): readonly unknown[] {
  if (schema === undefined) return []
  if (schema.const !== undefined) return [schema.const]
  if (schema.enum !== undefined) return schema.enum
  return schema.type === 'boolean' ? [true, false] : []
}

/** Texts that YAML 1.1, which the API server reads, takes for another type. */
const mistakable = /^(?:y|n|yes|no|on|off|true|false|null|[\d.+-][\d.e+-]*)$/i

function valueSuggestion(value: unknown): Suggestion {
  const label = String(value)
  return {
    label,
    text: typeof value === 'string' && mistakable.test(value) ? `"${value}"` : label,
    type: '',
    description: '',
  }
}
