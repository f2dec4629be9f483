import { InvalidArgumentError, Option } from 'commander'

/** Flags that several commands share, as they come to a command; each has those of its entry in `commands.ts`. */
export interface Flags {
  readonly presets?: readonly string[]
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
}

const flags = {
  presets: () => repeatable('--presets <path>', 'presets of this file or folder, not of the cluster (repeatable)'),
  namespaceLabels: () =>
    new Option('--namespace-labels <k=v,...>', 'labels of the namespace, beside its name').argParser(labels),
  allowHostReach: () =>
    new Option('--allow-host-reach', 'let the VM reach the host; the other rules hold; needs no cluster'),
  validate: () => new Option('--no-validate', 'without reach and rules, to see what would come out; needs no cluster'),
  capabilities: () =>
    new Option(
      '--capabilities <file>',
      'what the node can do, a profile as JSON; else what the nodes of the cluster say',
    ),
  uid: () => new Option('--uid <uid>', 'uid of the request, from which uuid and MACs are drawn'),
  namespace: () => new Option('-n, --namespace <name>', 'namespace of what names none'),
  kubeconfig: () => new Option('--kubeconfig <file>', 'the kubeconfig, as with kubectl'),
  context: () => new Option('--context <name>', "the kubeconfig's context"),
  outDir: () => new Option('--out-dir <dir>', 'write a file an input, and what is beside it'),
  strict: () => new Option('--strict', 'exit with 3 where there are warnings'),
  quiet: () => new Option('-q, --quiet', 'no warnings, only what was asked for'),
  color: () => new Option('--no-color', 'no colours, on a terminal either'),
}

export type Flag = keyof typeof flags

/** What a flag is made of; one that is none of these is its command's own. */
export const optionOf = (flag: Flag | Option): Option => (flag instanceof Option ? flag : flags[flag]())

export const clusterFlags = ['kubeconfig', 'context'] as const

/** Of all commands that complete VMs. */
export const completionFlags = [
  'presets',
  'namespaceLabels',
  'allowHostReach',
  'validate',
  'capabilities',
  'uid',
  'namespace',
  ...clusterFlags,
] as const

/** `-o`, with what stands for its value; the first where it is absent. */
export const outputFlag = (...formats: readonly [string, ...string[]]): Option =>
  new Option('-o, --output <format>', 'what to print').choices(formats).default(formats[0])

export const repeatable = (terms: string, description: string): Option =>
  new Option(terms, description).argParser<readonly string[] | undefined>((value, before = []) => [...before, value])

export function wholeNumber(text: string): number {
  if (!/^\d{1,9}$/.test(text)) throw new InvalidArgumentError('a whole number is wanted.')
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
