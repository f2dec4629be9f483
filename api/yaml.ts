import { LineCounter, parseAllDocuments, stringify, type Document, type ScalarTag, type Tags } from 'yaml'
import { isRecord } from './schema.ts'

/**
 * YAML as kubectl reads it, which is neither 1.1 nor 1.2 (sigs.k8s.io/yaml over go-yaml 2; tried with kubectl 1.36): `yes`, `on` and `y` are true,
 * `010`, `0o10` and `0b1000` are eight, `1_000` is a thousand, and `1:30` is text, as MAC addresses are.
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
    test: /^[-+]?(?:0b[01_]+|0o?[0-7_]+|0x[0-9a-fA-F_]+|[1-9][0-9_]*_[0-9_]*)$/,
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

/** The documents of YAML; `problem` says what is none: `LINE:COLUMN: …`. */
export function parseDocuments(
  text: string,
): { readonly documents: readonly Document[] } | { readonly problem: string } {
  const lines = new LineCounter()
  const documents: Document[] = []
  for (const document of parseAllDocuments(text, {
    lineCounter: lines,
    merge: true,
    customTags: withKubectlTags,
  })) {
    const [error] = document.errors
    if (error !== undefined) {
      const { line, col } = lines.linePos(error.pos[0])
      return { problem: `${line}:${col}: ${error.message.split('\n')[0]?.replace(/ at line \d+, column \d+:?$/, '')}` }
    }
    documents.push(document)
  }
  return { documents }
}

/** What a manifest holds, empty documents left out, and of a List its items. */
export function parseManifest(text: string): { readonly values: readonly unknown[] } | { readonly problem: string } {
  const json = parseJson(text)
  if (json !== undefined) return { values: itemsOf(json) }
  const read = parseDocuments(text)
  if ('problem' in read) return read
  const values = valuesOf(read.documents)
  return values === undefined
    ? { problem: '1:1: has aliases that cannot be resolved' }
    : { values: values.flatMap(itemsOf) }
}

/** Undefined where an alias stands in what it names, or aliases multiply without end. */
function valuesOf(documents: readonly Document[]): readonly unknown[] | undefined {
  try {
    const values = documents.map((document): unknown => document.toJS())
    JSON.stringify(values)
    return values
  } catch {
    return undefined
  }
}

/** JSON is YAML, too, but is read much faster by its own parser. */
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
  const isList = isRecord(value) && typeof value['kind'] === 'string' && value['kind'].endsWith('List')
  return isList && Array.isArray(value['items']) ? value['items'].filter(isRecord) : [value]
}

/** Written so that kubectl, too, reads text as text: `yes` and `1:30` stand in quotes. */
export const yamlOptions = {
  version: '1.1',
  lineWidth: 0,
  aliasDuplicateObjects: false,
  customTags: withKubectlTags,
} as const

export const toYaml = (value: unknown): string => stringify(value, yamlOptions)
