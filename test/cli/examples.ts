import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { parseAllDocuments } from 'yaml'

const root = join(import.meta.dirname, '../../manifests/examples')

/** A VM of the examples, or a kind that has one in its template. */
export interface Example {
  /** Relative to `manifests/examples`. */
  readonly name: string
  readonly file: string
  /** The VM, or the one that is created from its template. */
  readonly vm: object
  /** Its name or generateName. */
  readonly called: string
  /** Files with the presets of its folder. */
  readonly presets: readonly string[]
}

interface Document {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: { readonly name: string }
  readonly spec: { readonly template: { readonly metadata?: object; readonly spec: object } }
}

const documents = (file: string): Document[] =>
  parseAllDocuments(readFileSync(file, 'utf8')).map((document) => document.toJS())
const files = readdirSync(root, { recursive: true, encoding: 'utf8' })
  .filter((name) => name.endsWith('.yaml'))
  .map((name) => join(root, name))
  .toSorted()

const isPreset = ({ kind }: Document): boolean => kind.endsWith('VirtualMachinePreset')

/** The files with presets in a folder of the examples; '' is the top folder. */
export const presetFiles = (folder: string): readonly string[] =>
  files.filter((file) => dirname(file) === join(root, folder) && documents(file).every(isPreset))

export const presetsIn = (presets: readonly string[]): readonly Document[] => presets.flatMap(documents)

/** Every example that is a VM, config or group. */
export const examples: readonly Example[] = files.flatMap((file) =>
  documents(file)
    .filter(({ kind }) => /^VirtualMachine(Config|Group)?$/.test(kind))
    .map((object) => ({
      name: relative(root, file),
      file,
      ...vmOf(object),
      presets: presetFiles(relative(root, dirname(file))),
    })),
)

function vmOf(object: Document): Pick<Example, 'vm' | 'called'> {
  const { apiVersion, kind, metadata, spec } = object
  if (kind === 'VirtualMachine') return { vm: object, called: metadata.name }
  const { template } = spec
  const [called, names] =
    kind === 'VirtualMachineGroup'
      ? [`${metadata.name}-`, { generateName: `${metadata.name}-` }]
      : [metadata.name, { name: metadata.name }]
  const vm = { apiVersion, kind: 'VirtualMachine', ...template, metadata: { ...names, ...template.metadata } }
  return { vm, called }
}
