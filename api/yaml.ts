import {
  LineCounter,
  isAlias,
  isCollection,
  isScalar,
  parseAllDocuments,
  stringify,
  type Alias,
  type Document,
  type ParsedNode,
  type ScalarTag,
  type Tags,
  visit,
} from 'yaml'
import { isRecord } from './schema.ts'
import { shorten } from './shorten.ts'

/**
 * Tags that read YAML as kubectl does, which is neither 1.1 nor 1.2 (sigs.k8s.io/yaml over go-yaml 2; tested with
 * kubectl 1.36): `yes`, `on` and `y` are true; `010`, `0o10` and `0b1000` are eight; `1_000` is a thousand; `1:30` is a
 * string, as MAC addresses are.
 */
const kubectlTags: readonly ScalarTag[] = [
  {
    tag: 'tag:yaml.org,2002:bool',
    default: true,
    test: /^(?:y|Y|yes|Yes|YES|on|On|ON|n|N|no|No|NO|off|Off|OFF)$/,
    resolve: (text) => /^(?:y|on)/i.test(text),
  },
  {
    tag: 'tag:yaml.org,2002:int',
    default: true,
    test: /^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9]*_[0-9_]*)$/,
    resolve: integerOf,
  },
]

function integerOf(text: string): number {
  const sign = text.startsWith('-') ? -1 : 1
  const digits = text.replace(/^[-+]/, '').replaceAll('_', '')
  const isOldOctal = /^0[0-7]+$/.test(digits)
  return sign * Number(isOldOctal ? `0o${digits.slice(1)}` : digits)
}

const withKubectlTags = (tags: Tags): Tags => [...kubectlTags, ...tags]

/** The documents of a YAML text and their values. `problem` reports a syntax error as `LINE:COLUMN: …`. */
export function parseDocuments(
  text: string,
):
  | { readonly documents: readonly { readonly document: Document; readonly value: unknown }[] }
  | { readonly problem: string } {
  const lines = new LineCounter()
  const problemAt = (offset: number, words: string): { readonly problem: string } => {
    const { line, col } = lines.linePos(offset)
    return { problem: `${line}:${col}: ${words.split('\n')[0]?.replace(/ at line \d+, column \d+:?$/, '')}` }
  }
  const documents: { readonly document: Document; readonly value: unknown }[] = []
  for (const document of parseAllDocuments(text, {
    lineCounter: lines,
    merge: true,
    customTags: withKubectlTags,
    // The library compares each key with all before it, and warns of those in `wrongKey` with the text of the file.
    uniqueKeys: false,
    logLevel: 'error',
  })) {
    const [error] = document.errors
    if (error !== undefined) return problemAt(error.pos[0], error.message)
    const excess = aliasesOf(document)[mostAliases]
    if (excess !== undefined) return problemAt(offsetOf(excess), `more than ${mostAliases} aliases`)
    const wrong = wrongKey(document)
    if (wrong !== undefined) return problemAt(offsetOf(wrong.key), wrong.words)
    try {
      documents.push({ document, value: valueOf(document) })
    } catch (failure) {
      return problemAt(
        firstAlias(document),
        failure instanceof ReferenceError ? failure.message : 'an alias is inside the value that it names',
      )
    }
  }
  return { documents }
}

/**
 * @throws for an alias without an anchor, for aliases that would exhaust memory, and for one inside the value that it
 * refers to
 */
function valueOf(document: Document): unknown {
  const value: unknown = document.toJS()
  JSON.stringify(value)
  return value
}

/** The library searches the whole document for the anchor of each alias that is merged. */
const mostAliases = 500

function aliasesOf(document: Document.Parsed): Alias[] {
  const aliases: Alias[] = []
  visit(document, { Alias: (_, alias) => void aliases.push(alias) })
  return aliases
}

const offsetOf = (node: ParsedNode | Alias | undefined): number => node?.range?.[0] ?? 0

/** The first key that kubectl refuses: one that its map has already, or one that is no scalar. */
function wrongKey(document: Document.Parsed): { readonly key: ParsedNode; readonly words: string } | undefined {
  let wrong: ReturnType<typeof wrongKey>
  visit(document, {
    Map(_, map) {
      const seen = new Set<unknown>()
      for (const { key } of map.items as readonly { readonly key: ParsedNode }[]) {
        const named = isAlias(key) ? key.resolve(document) : key
        if (isCollection(named)) wrong = { key, words: 'a key must be a scalar, not a list or a map' }
        if (!isScalar(named)) continue
        if (seen.has(named.value))
          wrong = { key, words: `key ${shorten(JSON.stringify(named.value), 80)} already set in map` }
        seen.add(named.value)
        if (wrong !== undefined) return visit.BREAK
      }
      return undefined
    },
  })
  return wrong
}

/** The offset of the first alias without an anchor, otherwise of the first alias. */
function firstAlias(document: Document.Parsed): number {
  const aliases = aliasesOf(document)
  return offsetOf(aliases.find((alias) => alias.resolve(document) === undefined) ?? aliases[0])
}

/** The objects of a manifest, and the items of each List. Empty documents are skipped. */
export function parseManifest(text: string): { readonly values: readonly unknown[] } | { readonly problem: string } {
  const json = parseJson(text)
  if (json !== undefined) return { values: itemsOf(json) }
  const read = parseDocuments(text)
  if ('problem' in read) return read
  return { values: read.documents.flatMap(({ value }) => itemsOf(value)) }
}

/** JSON is also valid YAML, but its own parser is much faster. */
function parseJson(text: string): unknown {
  if (!/^\s*\{/.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

function itemsOf(value: unknown): readonly unknown[] {
  if (value === null || value === undefined) return []
  return isList(value) ? value.items : [value]
}

/** Whether a value is what `kubectl get` prints for several objects. */
export const isList = (value: unknown): value is { readonly kind: string; readonly items: readonly unknown[] } =>
  isRecord(value) &&
  typeof value['kind'] === 'string' &&
  value['kind'].endsWith('List') &&
  Array.isArray(value['items'])

/** Options for writing YAML so that kubectl reads strings as strings: `yes` and `1:30` are quoted. */
export const yamlOptions = {
  version: '1.1',
  lineWidth: 0,
  aliasDuplicateObjects: false,
  customTags: withKubectlTags,
} as const

export const toYaml = (value: unknown): string => stringify(value, yamlOptions)
