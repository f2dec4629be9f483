import { InvalidArgumentError, Option } from 'commander'

/** The values of flags that several commands share. The entries in `commands.ts` list those of each command. */
export interface Flags {
  /** False with `--no-presets`. */
  readonly presets?: readonly string[] | false
  readonly namespace?: string
  readonly namespaceLabels?: { readonly [key: string]: string }
  readonly capabilities?: string
  readonly uid?: string
  readonly allowHostReach?: true
  readonly validate?: boolean
  readonly kubeconfig?: string
  readonly context?: string
  readonly outDir?: string
  readonly quiet?: true
  readonly color?: boolean
  readonly strict?: true
  readonly schema?: readonly string[]
}

const flags = {
  presets: () =>
    repeatable('--presets <path>', 'read presets from this file or directory instead of the cluster (repeatable)'),
  noPresets: () => new Option('--no-presets', 'use no presets; needs no cluster'),
  schema: () =>
    repeatable(
      '--schema <path>',
      'schemas of other kinds than VMs: a file or directory with CRDs or OpenAPI v3 documents (repeatable; default: those of the cluster)',
    ),
  namespaceLabels: () =>
    new Option('--namespace-labels <k=v,...>', 'labels of the namespace, in addition to its name').argParser(labels),
  allowHostReach: () =>
    new Option('--allow-host-reach', 'allow the VM to reach the host; the other rules apply; needs no cluster'),
  validate: () =>
    new Option('--no-validate', 'skip the check for host access and all rules, to see the result; needs no cluster'),
  capabilities: () =>
    new Option(
      '--capabilities <file>',
      "capabilities of the nodes, as JSON (default: those of the cluster's nodes; without a cluster, the bundled ones)",
    ),
  uid: () => new Option('--uid <uid>', 'uid of the request, from which the UUID and MAC addresses are derived'),
  namespace: () => new Option('-n, --namespace <name>', 'namespace of objects without one'),
  kubeconfig: () => new Option('--kubeconfig <file>', 'the kubeconfig, as for kubectl'),
  context: () => new Option('--context <name>', 'the context of the kubeconfig'),
  outDir: () => new Option('--out-dir <dir>', 'write one file per result to this directory'),
  strict: () => new Option('--strict', 'exit with 3 if there are warnings'),
  quiet: () => new Option('-q, --quiet', 'print no warnings'),
  color: () => new Option('--no-color', 'print no colors, not even on a terminal'),
}

export type Flag = keyof typeof flags

/** The option of a shared flag, or the command's own option unchanged. */
export const optionOf = (flag: Flag | Option): Option => (flag instanceof Option ? flag : flags[flag]())

export const clusterFlags = ['kubeconfig', 'context'] as const

/** The flags of all commands that complete VMs. */
export const completionFlags = [
  'presets',
  'noPresets',
  'namespaceLabels',
  'allowHostReach',
  'validate',
  'capabilities',
  'uid',
  'namespace',
  ...clusterFlags,
] as const

/** `-o` with its values; the first is the default. */
export const outputFlag = (...formats: readonly [string, ...string[]]): Option =>
  new Option('-o, --output <format>', 'output format').choices(formats).default(formats[0])

export const repeatable = (terms: string, description: string): Option =>
  new Option(terms, description).argParser<readonly string[] | undefined>((value, before = []) => [...before, value])

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('must be a whole number.')
  return Number(text)
}

function labels(text: string): { readonly [key: string]: string } {
  const pairs = text.split(',').filter((pair) => pair !== '')
  return Object.fromEntries(
    pairs.map((pair) => {
      const at = pair.indexOf('=')
      if (at <= 0) throw new InvalidArgumentError(`"${pair}" is not KEY=VALUE.`)
      return [pair.slice(0, at), pair.slice(at + 1)]
    }),
  )
}
