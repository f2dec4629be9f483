import { Command, CommanderError, InvalidArgumentError, Option } from 'commander'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import type { CompleteSettings } from './complete.ts'
import type { Output } from './output.ts'
import type { Paint } from './paint.ts'
import { addPowerCommands } from './power.ts'
import type { Cluster, World } from './world.ts'

/** Flags that several commands share, as commander gives them. */
interface Flags {
  readonly presets?: readonly string[]
  readonly namespace?: string
  readonly namespaceLabels?: { readonly [key: string]: string }
  readonly capabilities?: string
  readonly uid?: string
  readonly allowHostReach?: true
  readonly validate?: boolean
  readonly kubeconfig?: string
  readonly context?: string
  readonly quiet?: true
  readonly color?: boolean
  readonly strict?: true
}

interface CompleteFlags extends Flags {
  readonly output: 'yaml' | 'json' | 'xml'
  readonly provenance?: true
  readonly outDir?: string
  readonly watch?: true
}

const list = (value: string, before: readonly string[] = []): readonly string[] => [...before, value]

/** `kubectl vm`, all its commands; each loads what it needs when it is called, so that none waits for another's code. */
export function createProgram(world: World): { readonly program: Command; readonly code: () => ExitCode } {
  let code: ExitCode = exitCodes.fine
  const ends = (result: ExitCode): void => {
    code = result
  }
  const program = new Command('kubectl vm')
    .description('What presets and libvirt make of a virtual machine, with the engine of the admission webhooks.')
    .showSuggestionAfterError()
    .showHelpAfterError('(kubectl vm help shows what there is)')
    .configureHelp({ sortSubcommands: false })
    .configureOutput({
      writeOut: world.out,
      writeErr: world.err,
      getOutHelpWidth: () => world.columns,
      getErrHelpWidth: () => world.columns,
      getOutHasColors: () => false,
      getErrHasColors: () => false,
    })
    .exitOverride()

  command(
    program,
    'complete',
    'the completed VM, as YAML, JSON or Domain XML',
    'complete vm.yaml --presets presets/ --provenance',
  )
    .argument('<file...>', 'VMs, configs, groups or Domain XML; - for standard input, a folder for its manifests')
    .addOption(new Option('-o, --output <format>', 'what to print').choices(['yaml', 'json', 'xml']).default('yaml'))
    .option('--provenance', 'say of each field who put it there')
    .option('--out-dir <dir>', 'write a file an input, and what is beside it')
    .option('--watch', 'complete again whenever a file changes')
    .option('--strict', 'exit with 3 where there are warnings')
  completionFlags(program)
  quietFlags(program)
  last(program).action(async (files: readonly string[], flags: CompleteFlags) => {
    const once = () => completeFiles(world, files, flags)
    ends(await once())
    if (flags.watch === true) {
      for (;;) {
        const changed = await world.changed([...files, ...(flags.presets ?? [])])
        if (changed === undefined) return
        world.err(`\n${changed} has changed\n`)
        ends(await onceMore(world, once))
      }
    }
  })

  command(
    program,
    'explain',
    'who set which field of a VM, and which presets looked at it',
    'explain web spec.domain.cpu',
  )
    .argument('<vm>', 'a VM of the cluster, NAME or NAMESPACE/NAME; or a file')
    .argument('[path]', 'only this field and what is below it: spec.domain.devices.disks[0]')
    .addOption(new Option('-o, --output <format>', 'how to print it').choices(['text', 'json']).default('text'))
  completionFlags(program)
  colorFlags(program)
  last(program).action(async (vm: string, path: string | undefined, flags: Flags & { output: 'text' | 'json' }) => {
    const { explain } = await import('./explain.ts')
    ends(
      await withCompletion(world, flags, (settings, cluster) =>
        explain(
          vm,
          path,
          { ...settings, ...(cluster === undefined ? {} : { cluster }) },
          { format: flags.output, paint: paintOf(world, flags), columns: world.columns },
          world,
        ),
      ),
    )
  })

  command(
    program,
    'diff',
    'what completion adds to a VM, as a diff; exits with 1 if there is any',
    'diff vm.yaml',
  ).argument('<file...>', 'VMs, configs, groups or Domain XML; - for standard input, a folder for its manifests')
  completionFlags(program)
  quietFlags(program)
  colorFlags(program)
  last(program).action(async (files: readonly string[], flags: Flags) => {
    const [{ diffAll }, { readInputs }, paint] = await Promise.all([
      import('./diff.ts'),
      import('./input.ts'),
      paintOf(world, flags),
    ])
    ends(
      await withCompletion(world, flags, (settings) =>
        diffAll(readInputs(files, world.stdin), settings, flags.quiet === true, paint, world),
      ),
    )
  })

  command(program, 'test', 'runs tests of presets: files *.vmtest.yaml', 'test presets/ --junit report.xml')
    .argument('<path...>', 'folders, or files *.vmtest.yaml')
    .option('--update', 'write what came out in place of what was expected')
    .option('--junit <file>', 'write a report as JUnit XML')
    .option('--capabilities <file>', 'what the node can do, a profile as JSON')
  quietFlags(program)
  colorFlags(program)
  last(program).action(async (paths: readonly string[], flags: Flags & { update?: true; junit?: string }) => {
    const { testPresets } = await import('./preset-test.ts')
    ends(
      await testPresets(
        paths,
        {
          capabilities: await capabilitiesOf(flags.capabilities),
          update: flags.update === true,
          quiet: flags.quiet === true,
          paint: await paintOf(world, flags),
          ...(flags.junit === undefined ? {} : { junit: flags.junit }),
        },
        world,
      ),
    )
  })

  command(
    program,
    'impact',
    'which existing VMs would come out differently with these presets',
    'impact --presets new.yaml',
  )
    .requiredOption('--presets <path>', 'the presets that are to be applied: a file or folder (repeatable)', list)
    .option('--vms <dir>', 'VMs and presets of this file or folder, not of the cluster (repeatable)', list)
    .option('--limit <n>', 'VMs to show for each namespace', wholeNumber, 10)
    .option('--capabilities <file>', 'what the node can do, a profile as JSON')
    .addOption(new Option('-o, --output <format>', 'how to print it').choices(['text', 'json']).default('text'))
  namespaceFlags(program, 'only VMs of this namespace; and where presets are that name none')
  clusterFlags(program)
  quietFlags(program)
  colorFlags(program)
  last(program).action(
    async (
      flags: Flags & { presets: readonly string[]; vms?: readonly string[]; limit: number; output: 'text' | 'json' },
    ) => {
      const { impact } = await import('./impact.ts')
      ends(
        await withProgress(world, async (step) =>
          impact(
            flags.presets,
            {
              ...(flags.vms === undefined ? {} : { files: flags.vms }),
              ...(flags.namespace === undefined ? {} : { namespace: flags.namespace }),
              cluster: () => clusterOf(world, flags),
              capabilities: await capabilitiesOf(flags.capabilities),
            },
            {
              format: flags.output,
              limit: flags.limit,
              quiet: flags.quiet === true,
              paint: await paintOf(world, flags),
            },
            world,
            step,
          ),
        ),
      )
    },
  )

  addPowerCommands(program, world, ends)

  command(program, 'import', "a VM from libvirt's Domain XML", 'import --from qemu:///system > vms.yaml')
    .argument('[file...]', 'Domain XML; - for standard input')
    .addOption(new Option('-o, --output <format>', 'what to print').choices(['yaml', 'json']).default('yaml'))
    .option('--out-dir <dir>', 'write a file an input')
    .option('--from <uri>', 'the domains of the libvirt daemon of this machine: qemu:///system or qemu:///session')
    .option('--socket <path>', "the daemon's socket, where it is not in its usual place")
  last(program).action(
    async (
      files: readonly string[],
      flags: { output: 'yaml' | 'json'; outDir?: string; from?: string; socket?: string },
    ) => {
      const isDaemon = flags.from !== undefined || flags.socket !== undefined
      if (isDaemon === files.length > 0) throw new Usage('import wants files, or else --from URI or --socket PATH')
      const { importAll } = await import('./convert.ts')
      const inputs = isDaemon
        ? (await import('./running-domains.ts')).readRunningDomains(flags, world)
        : (await import('./input.ts')).readInputs(files, world.stdin)
      ends(
        await withOutput(world, flags.outDir, (output, step) => importAll(inputs, flags.output, output, world, step)),
      )
    },
  )

  command(program, 'export', "libvirt's Domain XML of a VM, as it stands", 'export vm.yaml')
    .argument('<file...>', 'VMs, configs or groups; - for standard input')
    .option('--out-dir <dir>', 'write a file an input')
  last(program).action(async (files: readonly string[], flags: { outDir?: string }) => {
    const [{ exportAll }, { readInputs }] = await Promise.all([import('./convert.ts'), import('./input.ts')])
    ends(
      await withOutput(world, flags.outDir, (output, step) =>
        exportAll(readInputs(files, world.stdin), output, world, step),
      ),
    )
  })

  command(program, 'lint', 'what the admission of presets says of these', 'lint presets/ --strict')
    .argument('<path...>', 'files, or folders for their manifests; - for standard input')
    .option('--strict', 'exit with 3 where there are warnings')
  namespaceFlags(program, 'where presets are that name none')
  quietFlags(program)
  last(program).action(async (paths: readonly string[], flags: Flags) => {
    const [{ lint }, { readInputs }] = await Promise.all([import('./lint.ts'), import('./input.ts')])
    const how = { namespace: flags.namespace ?? 'default', strict: flags.strict === true, quiet: flags.quiet === true }
    ends(await lint(readInputs(paths, world.stdin), how, world))
  })

  command(program, 'schema', 'JSON Schemas of the kinds, for editors', 'schema > virtset.schema.json')
    .argument('[kind]', 'only this kind')
    .option('--out-dir <dir>', 'write a file a kind')
  last(program).action(async (kind: string | undefined, flags: { outDir?: string }) => {
    const { printSchemas } = await import('./schema.ts')
    const { printed, filed } = await import('./output.ts')
    await printSchemas(
      kind,
      flags.outDir === undefined ? printed(world) : await filed(flags.outDir),
      flags.outDir !== undefined,
    )
  })

  command(
    program,
    'completion',
    'a script by which a shell completes commands and flags',
    'completion bash > /etc/bash_completion.d/kubectl-vm',
  ).addArgument(program.createArgument('<shell>').choices(['bash', 'zsh', 'fish', 'kubectl']))
  last(program).action(async (shell: string) => {
    const { shellScript } = await import('./shell.ts')
    world.out(shellScript(shell))
  })

  program
    .command('__complete', { hidden: true })
    .argument('[words...]')
    .allowUnknownOption()
    .helpOption(false)
    .action(async (words: readonly string[]) => {
      const { candidates } = await import('./shell.ts')
      world.out(
        candidates(program, words)
          .map((word) => `${word}\n`)
          .join(''),
      )
    })

  return { program, code: () => code }
}

/** Runs one command line, without the program's name; gives back the exit code. What is nobody's mistake is thrown. */
export async function run(words: readonly string[], world: World): Promise<ExitCode> {
  const { program, code } = createProgram(world)
  try {
    await program.parseAsync(words, { from: 'user' })
    return code()
  } catch (error) {
    if (error instanceof Usage) {
      world.err(`error: ${error.message}\n`)
      return exitCodes.usage
    }
    // The library has said it already; help is no mistake.
    if (error instanceof CommanderError)
      return error.exitCode === 0 || words.length === 0 ? exitCodes.fine : exitCodes.usage
    throw error
  }
}

const command = (program: Command, name: string, description: string, example: string): Command =>
  program.command(name).description(description).addHelpText('after', `\nExample:\n  kubectl vm ${example}`)

function last({ commands }: Command): Command {
  const command = commands.at(-1)
  if (command === undefined) throw new Error('there is no command yet')
  return command
}

function completionFlags(program: Command): void {
  last(program)
    .option('--presets <path>', 'presets of this file or folder, not of the cluster (repeatable)', list)
    .option('--namespace-labels <k=v,...>', 'labels of the namespace, beside its name', labels)
    .option('--allow-host-reach', 'let the VM reach the host; the other rules hold; needs no cluster')
    .option('--no-validate', 'without reach and rules, to see what would come out; needs no cluster')
    .option('--capabilities <file>', 'what the node can do, a profile as JSON')
    .option('--uid <uid>', 'uid of the request, from which uuid and MACs are drawn')
  namespaceFlags(program, 'namespace of what names none')
  clusterFlags(program)
}

const namespaceFlags = (program: Command, description: string): unknown =>
  last(program).option('-n, --namespace <name>', description)

const clusterFlags = (program: Command): unknown =>
  last(program)
    .option('--kubeconfig <file>', 'the kubeconfig, as with kubectl')
    .option('--context <name>', "the kubeconfig's context")

const quietFlags = (program: Command): unknown =>
  last(program).option('-q, --quiet', 'no warnings, only what was asked for')

const colorFlags = (program: Command): unknown => last(program).option('--no-color', 'no colours, on a terminal either')

function wholeNumber(text: string): number {
  if (!/^\d+$/.test(text)) throw new InvalidArgumentError('a whole number is wanted.')
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

async function completeFiles(world: World, files: readonly string[], flags: CompleteFlags): Promise<ExitCode> {
  const [{ completeAll }, { readInputs }] = await Promise.all([import('./complete.ts'), import('./input.ts')])
  const how = {
    format: flags.output,
    provenance: flags.provenance === true,
    strict: flags.strict === true,
    quiet: flags.quiet === true,
  }
  return withCompletion(world, flags, (settings) =>
    withOutput(world, flags.outDir, (output, step) =>
      completeAll(readInputs(files, world.stdin), settings, how, output, world, step),
    ),
  )
}

/** A file that cannot be read for a moment, while an editor writes it, ends no watch. */
async function onceMore(world: World, once: () => Promise<ExitCode>): Promise<ExitCode> {
  try {
    return await once()
  } catch (error) {
    if (!(error instanceof Usage)) throw error
    world.err(`error: ${error.message}\n`)
    return exitCodes.usage
  }
}

/** Runs something that completes: offline with `--presets` or without rules, else with the presets of the cluster. */
async function withCompletion<C extends ExitCode>(
  world: World,
  flags: Flags,
  run: (settings: CompleteSettings, cluster: Cluster | undefined) => Promise<C>,
): Promise<ExitCode> {
  const allowHostReach = flags.allowHostReach === true
  const skipRules = flags.validate === false
  const rest = {
    capabilities: await capabilitiesOf(flags.capabilities),
    allowHostReach,
    skipRules,
    ...(flags.uid === undefined ? {} : { uid: flags.uid }),
  }
  if (flags.presets !== undefined || allowHostReach || skipRules) {
    const [{ readManifests }, { offline, presetsOf, quarantineWarning }] = await Promise.all([
      import('./input.ts'),
      import('./surroundings.ts'),
    ])
    const namespace = flags.namespace ?? 'default'
    const presets = presetsOf(await readManifests(flags.presets ?? [], world.stdin), namespace)
    const warnings = presets.quarantined.map(quarantineWarning)
    if (flags.quiet !== true) for (const warning of warnings) world.err(`Warning: ${warning}\n`)
    const surroundings = offline(presets, flags.namespaceLabels ?? {})
    const code = await run({ ...rest, surroundings, namespace }, undefined)
    const isWarned = warnings.length > 0 && flags.strict === true
    return code === exitCodes.fine && isWarned ? exitCodes.warnings : code
  }
  if (flags.namespaceLabels !== undefined)
    throw new Usage('--namespace-labels goes with --presets: a cluster has its own')
  const cluster = await clusterOf(world, flags)
  const { online, clusterFailure } = await import('./cluster.ts')
  try {
    const namespace = flags.namespace ?? cluster.namespace ?? 'default'
    return await run({ ...rest, surroundings: online(cluster), namespace }, cluster)
  } catch (error) {
    throw clusterFailure(error, cluster)
  } finally {
    await cluster.kube.close()
  }
}

async function clusterOf(world: World, { kubeconfig, context }: Flags): Promise<Cluster> {
  try {
    return await world.cluster({
      ...(kubeconfig === undefined ? {} : { kubeconfig }),
      ...(context === undefined ? {} : { context }),
    })
  } catch (error) {
    const { errorText } = await import('./failure.ts')
    throw new Usage(`${errorText(error)}\nWithout a cluster: --presets FILE|DIR`, { cause: error })
  }
}

async function capabilitiesOf(file: string | undefined) {
  const { bundledCapabilities, readCapabilities } = await import('../completion/capabilities.ts')
  if (file === undefined) return bundledCapabilities
  const { readText } = await import('./input.ts')
  const text = await readText(file)
  try {
    return readCapabilities(JSON.parse(text))
  } catch (error) {
    const { errorText } = await import('./failure.ts')
    throw new Usage(`${file}: ${errorText(error)}`, { cause: error })
  }
}

async function paintOf(world: World, { color }: Flags): Promise<Paint> {
  const { painter } = await import('./paint.ts')
  return painter(world, color !== false)
}

async function withOutput(
  world: World,
  folder: string | undefined,
  run: (output: Output, step: (word: string) => void) => Promise<ExitCode>,
): Promise<ExitCode> {
  const { filed, printed } = await import('./output.ts')
  const output = folder === undefined ? printed(world) : await filed(folder)
  return withProgress(world, (step) => run(output, step))
}

async function withProgress(world: World, run: (step: (word: string) => void) => Promise<ExitCode>): Promise<ExitCode> {
  const { progress } = await import('./output.ts')
  const { step, end } = progress(world, world.isErrTerminal, world.now)
  try {
    return await run(step)
  } finally {
    end()
  }
}
