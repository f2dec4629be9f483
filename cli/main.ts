import { createHash } from 'node:crypto'
import { readFile } from 'node:fs/promises'
import { Command, CommanderError, Option } from 'commander'
import { Usage, exitCodes } from './failure.ts'
import { filed, printed, progress, type Output, type Streams } from './output.ts'

const streams: Streams = {
  out: (text) => process.stdout.write(text),
  err: (text) => process.stderr.write(text),
}

const list = (value: string, before: readonly string[] = []): readonly string[] => [...before, value]

const program = new Command('kubectl vm')
  .description('What presets and libvirt make of a virtual machine, with the engine of the admission webhooks.')
  .showSuggestionAfterError()
  .showHelpAfterError('(kubectl vm help shows what there is)')
  .configureHelp({ sortSubcommands: false })
  .exitOverride()

const namespaceOption = new Option('-n, --namespace <name>', 'namespace of what names none').default('default')
const outDirOption = new Option('--out-dir <dir>', 'write a file an input, and go on after a refusal')

program
  .command('complete')
  .description('the completed VM, as YAML, JSON or Domain XML')
  .argument('<file...>', 'manifests or Domain XML; - for standard input, a folder for its manifests')
  .addOption(new Option('-o, --output <format>', 'what to print').choices(['yaml', 'json', 'xml']).default('yaml'))
  .option('--presets <path>', 'presets of this file or folder, not of the cluster (repeatable)', list)
  .option('--namespace-labels <k=v,...>', 'labels of the namespace, beside its name')
  .option('--provenance', 'say of each field who put it there')
  .option('--allow-host-reach', 'let the VM reach the host, to see what would come out')
  .option('--no-validate', 'leave out reach and rules, to see what would come out')
  .option('--capabilities <file>', 'what the node can do, a profile as JSON')
  .option('--uid <uid>', 'uid of the request, from which uuid and MACs are drawn')
  .option('--strict', 'exit with 3 where there are warnings')
  .option('-q, --quiet', 'no warnings')
  .addOption(namespaceOption)
  .addOption(outDirOption)
  .addHelpText('after', '\nExample:\n  kubectl vm complete vm.yaml --presets presets/ --provenance')
  .action(async (files: string[], given: CompleteFlags) => {
    const [{ completeAll }, { readInputs, readManifests }, { presetsOf, quarantineWarning }, capabilities] =
      await Promise.all([
        import('./complete.ts'),
        import('./input.ts'),
        import('./presets.ts'),
        import('../completion/capabilities.ts'),
      ])
    const presets = presetsOf(await readManifests(given.presets ?? [], process.stdin), given.namespace)
    for (const broken of presets.quarantined) streams.err(`Warning: ${quarantineWarning(broken)}\n`)
    const labels = labelsOf(given.namespaceLabels)
    const profile =
      given.capabilities === undefined
        ? capabilities.bundledCapabilities
        : capabilities.readCapabilities(JSON.parse(await readFile(given.capabilities, 'utf8')))
    const code = await withOutput(given.outDir, (output, step) =>
      completeAll(
        readInputs(files, process.stdin),
        {
          format: given.output,
          presets,
          namespace: given.namespace,
          namespaceLabels: (name) => ({ ...labels, 'kubernetes.io/metadata.name': name }),
          capabilities: profile,
          uid: given.uid ?? createHash('sha256').update(files.join('\0')).digest('hex'),
          provenance: given.provenance === true,
          allowHostReach: given.allowHostReach === true,
          validate: given.validate,
          strict: given.strict === true,
          quiet: given.quiet === true,
        },
        output,
        streams,
        step,
      ),
    )
    process.exitCode = code
  })

program
  .command('import')
  .description("a VM from libvirt's Domain XML")
  .argument('<file...>', 'Domain XML; - for standard input')
  .addOption(new Option('-o, --output <format>', 'what to print').choices(['yaml', 'json']).default('yaml'))
  .addOption(outDirOption)
  .addHelpText('after', '\nExample:\n  virsh dumpxml --inactive web | kubectl vm import - > web.yaml')
  .action(async (files: string[], given: { output: 'yaml' | 'json'; outDir?: string }) => {
    const [{ importAll }, { readInputs }] = await Promise.all([import('./convert.ts'), import('./input.ts')])
    process.exitCode = await withOutput(given.outDir, (output, step) =>
      importAll(readInputs(files, process.stdin), given.output, output, streams, step),
    )
  })

program
  .command('export')
  .description("libvirt's Domain XML of a VM, as it stands")
  .argument('<file...>', 'manifests; - for standard input')
  .addOption(outDirOption)
  .addHelpText('after', '\nExample:\n  kubectl get vm web -o yaml | kubectl vm export -')
  .action(async (files: string[], given: { outDir?: string }) => {
    const [{ exportAll }, { readInputs }] = await Promise.all([import('./convert.ts'), import('./input.ts')])
    process.exitCode = await withOutput(given.outDir, (output, step) =>
      exportAll(readInputs(files, process.stdin), output, streams, step),
    )
  })

interface CompleteFlags {
  readonly output: 'yaml' | 'json' | 'xml'
  readonly presets?: readonly string[]
  readonly namespaceLabels?: string
  readonly provenance?: true
  readonly allowHostReach?: true
  readonly validate: boolean
  readonly capabilities?: string
  readonly uid?: string
  readonly strict?: true
  readonly quiet?: true
  readonly namespace: string
  readonly outDir?: string
}

async function withOutput(
  folder: string | undefined,
  run: (output: Output, step: (word: string) => void) => Promise<number>,
): Promise<number> {
  const { step, end } = progress(streams, process.stderr.isTTY, () => performance.now())
  try {
    return await run(folder === undefined ? printed(streams) : await filed(folder), step)
  } finally {
    end()
  }
}

function labelsOf(text = ''): { readonly [key: string]: string } {
  return Object.fromEntries(
    text
      .split(',')
      .filter((pair) => pair !== '')
      .map((pair) => {
        const at = pair.indexOf('=')
        if (at <= 0) throw new Usage(`--namespace-labels: "${pair}" is not KEY=VALUE`)
        return [pair.slice(0, at), pair.slice(at + 1)]
      }),
  )
}

try {
  await program.parseAsync()
} catch (error) {
  if (error instanceof Usage) {
    streams.err(`error: ${error.message}\n`)
    process.exitCode = exitCodes.usage
  } else if (error instanceof CommanderError) {
    // The library has said it already; help is no mistake.
    process.exitCode = error.exitCode === 0 ? exitCodes.fine : exitCodes.usage
  } else {
    throw error
  }
}
