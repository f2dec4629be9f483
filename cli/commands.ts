import { Argument, Option } from 'commander'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { clusterFlags, completionFlags, outputFlag, repeatable, wholeNumber, type Flag, type Flags } from './flags.ts'
import type { PowerFlags, Verb } from './power.ts'
import { capabilitiesOf, clusterOf, paintOf, withCompletion, withOutput, withProgress } from './session.ts'
import type { World } from './world.ts'

/** A command of `kubectl vm`. */
export interface Entry {
  readonly name: string
  readonly description: string
  /** What comes after `kubectl vm NAME`, and what it ends with where that is not 0. */
  readonly example: string
  readonly ends?: { readonly code: ExitCode; readonly why: string }
  readonly words: readonly Argument[]
  readonly flags: readonly (Flag | Option)[]
  /** @param flags as the entry's have them, and no others: the library holds what users write against the entry */
  run(words: readonly string[], flags: Flags, world: World): Promise<ExitCode>
}

interface CompleteFlags extends Flags {
  readonly output: 'yaml' | 'json' | 'xml'
  readonly provenance?: true
  readonly watch?: true
}

interface TestFlags extends Flags {
  readonly update?: true
  readonly junit?: string
}

interface ImpactFlags extends Flags {
  readonly presets: readonly string[]
  readonly vms?: readonly string[]
  readonly limit: number
  readonly output: 'text' | 'json'
}

interface ImportFlags extends Flags {
  readonly output: 'yaml' | 'json'
  readonly from?: string
  readonly socket?: string
}

const vmFiles = new Argument(
  '<file...>',
  'VMs, configs, groups or Domain XML; - for standard input, a folder for its manifests',
)

const complete: Entry = {
  name: 'complete',
  description: 'the completed VM, as YAML, JSON or Domain XML',
  example: 'vm.yaml --presets presets/ --provenance',
  words: [vmFiles],
  flags: [
    outputFlag('yaml', 'json', 'xml'),
    new Option('--provenance', 'say of each field who put it there'),
    'outDir',
    new Option('--watch', 'complete again whenever a file changes'),
    'strict',
    ...completionFlags,
    'quiet',
  ],
  async run(files, flags: CompleteFlags, world) {
    const once = () => completeFiles(files, flags, world)
    if (flags.watch !== true) return once()
    // What changes while the first completion is under way counts, too.
    const changes = await world.changes([...files, ...(flags.presets ?? [])])
    let code = await unlessUnreadable(once, world)
    for await (const changed of changes) {
      world.err(`\n${changed} has changed\n`)
      code = await unlessUnreadable(once, world)
    }
    return code
  },
}

async function completeFiles(files: readonly string[], flags: CompleteFlags, world: World): Promise<ExitCode> {
  const [{ completeAll }, { readInputs }] = await Promise.all([import('./complete.ts'), import('./input.ts')])
  const how = {
    format: flags.output,
    provenance: flags.provenance === true,
    strict: flags.strict === true,
    quiet: flags.quiet === true,
  }
  return withCompletion(flags, world, (settings) =>
    withOutput(flags, world, (output, step) =>
      completeAll(readInputs(files, world.stdin), settings, how, output, world, step),
    ),
  )
}

/** A file that cannot be read for a moment, while an editor writes it, ends no watch. */
async function unlessUnreadable(once: () => Promise<ExitCode>, world: World): Promise<ExitCode> {
  try {
    return await once()
  } catch (error) {
    if (!(error instanceof Usage)) throw error
    world.err(`error: ${error.message}\n`)
    return exitCodes.usage
  }
}

const explain: Entry = {
  name: 'explain',
  description: 'who set which field of a VM, and which presets looked at it',
  example: 'web spec.domain.cpu',
  words: [
    new Argument('<vm>', 'a VM of the cluster, NAME or NAMESPACE/NAME; or a file'),
    new Argument('[path]', 'only this field and what is below it: spec.domain.devices.disks[0]'),
  ],
  flags: [outputFlag('text', 'json'), ...completionFlags, 'color'],
  async run([vm = '', path], flags: Flags & { readonly output: 'text' | 'json' }, world) {
    const { explain: explainOne } = await import('./explain.ts')
    return withCompletion(flags, world, (settings, cluster) =>
      explainOne(
        vm,
        path,
        { ...settings, ...(cluster === undefined ? {} : { cluster }) },
        { format: flags.output, paint: paintOf(flags, world), columns: world.columns },
        world,
      ),
    )
  },
}

const diff: Entry = {
  name: 'diff',
  description: 'what completion adds to a VM, as a diff',
  example: 'vm.yaml --presets presets/',
  ends: { code: 1, why: 'something is added' },
  words: [vmFiles],
  flags: [...completionFlags, 'quiet', 'color'],
  async run(files, flags, world) {
    const [{ diffAll }, { readInputs }, paint] = await Promise.all([
      import('./diff.ts'),
      import('./input.ts'),
      paintOf(flags, world),
    ])
    return withCompletion(flags, world, (settings) =>
      diffAll(readInputs(files, world.stdin), settings, flags.quiet === true, paint, world),
    )
  },
}

const test: Entry = {
  name: 'test',
  description: 'runs tests of presets: files *.vmtest.yaml',
  example: 'presets/ --junit report.xml',
  words: [new Argument('<path...>', 'folders, or files *.vmtest.yaml')],
  flags: [
    new Option('--update', 'write what came out in place of what was expected'),
    new Option('--junit <file>', 'write a report as JUnit XML'),
    'capabilities',
    'quiet',
    'color',
  ],
  async run(paths, flags: TestFlags, world) {
    const { testPresets } = await import('./preset-test.ts')
    const settings = {
      capabilities: await capabilitiesOf(flags.capabilities),
      update: flags.update === true,
      quiet: flags.quiet === true,
      paint: await paintOf(flags, world),
      ...(flags.junit === undefined ? {} : { junit: flags.junit }),
    }
    return testPresets(paths, settings, world)
  },
}

const impact: Entry = {
  name: 'impact',
  description: 'which existing VMs would come out differently with these presets',
  example: '--presets new.yaml',
  ends: { code: 1, why: 'some VM would' },
  words: [],
  flags: [
    repeatable(
      '--presets <path>',
      'the presets that are to be applied: a file or folder (repeatable)',
    ).makeOptionMandatory(),
    repeatable('--vms <dir>', 'VMs and presets of this file or folder, not of the cluster (repeatable)'),
    new Option('--limit <n>', 'VMs to show for each namespace').argParser(wholeNumber).default(10),
    'capabilities',
    outputFlag('text', 'json'),
    new Option('-n, --namespace <name>', 'only VMs of this namespace; and where presets are that name none'),
    ...clusterFlags,
    'quiet',
    'color',
  ],
  async run(_, flags: ImpactFlags, world) {
    const { impact: weigh, withoutClusterVms } = await import('./impact.ts')
    const { vms, namespace, output: format, limit } = flags
    const source = {
      ...(vms === undefined ? {} : { files: vms }),
      ...(namespace === undefined ? {} : { namespace }),
      cluster: () => clusterOf(flags, world, withoutClusterVms),
      ...(flags.capabilities === undefined ? {} : { capabilities: await capabilitiesOf(flags.capabilities) }),
    }
    const how = { format, limit, quiet: flags.quiet === true, paint: await paintOf(flags, world) }
    return withProgress(world, (step) => weigh(flags.presets, source, how, world, step))
  },
}

const importing: Entry = {
  name: 'import',
  description: "a VM from libvirt's Domain XML",
  example: '--from qemu:///system > vms.yaml',
  words: [new Argument('[file...]', 'Domain XML; - for standard input')],
  flags: [
    outputFlag('yaml', 'json'),
    'outDir',
    new Option('--from <uri>', 'the domains of the libvirt daemon of this machine: qemu:///system or qemu:///session'),
    new Option('--socket <path>', "the daemon's socket, where it is not in its usual place"),
  ],
  async run(files, flags: ImportFlags, world) {
    const isDaemon = flags.from !== undefined || flags.socket !== undefined
    if (isDaemon === files.length > 0) throw new Usage('import wants files, or else --from URI or --socket PATH')
    const { importAll } = await import('./convert.ts')
    const inputs = isDaemon
      ? (await import('./running-domains.ts')).readRunningDomains(flags, world)
      : (await import('./input.ts')).readInputs(files, world.stdin)
    return withOutput(flags, world, (output, step) => importAll(inputs, flags.output, output, world, step))
  },
}

const exporting: Entry = {
  name: 'export',
  description: "libvirt's Domain XML of a VM, as it stands",
  example: 'vm.yaml',
  words: [new Argument('<file...>', 'VMs, configs or groups; - for standard input')],
  flags: ['outDir'],
  async run(files, flags, world) {
    const [{ exportAll }, { readInputs }] = await Promise.all([import('./convert.ts'), import('./input.ts')])
    return withOutput(flags, world, (output, step) => exportAll(readInputs(files, world.stdin), output, world, step))
  },
}

const lint: Entry = {
  name: 'lint',
  description: 'what the admission of presets says of these',
  example: 'presets/ --strict',
  words: [new Argument('<path...>', 'files, or folders for their manifests; - for standard input')],
  flags: ['strict', new Option('-n, --namespace <name>', 'where presets are that name none'), 'quiet'],
  async run(paths, flags, world) {
    const [{ lint: lintAll }, { readInputs }] = await Promise.all([import('./lint.ts'), import('./input.ts')])
    const how = { namespace: flags.namespace ?? 'default', strict: flags.strict === true, quiet: flags.quiet === true }
    return lintAll(readInputs(paths, world.stdin), how, world)
  },
}

const schema: Entry = {
  name: 'schema',
  description: 'JSON Schemas of the kinds, for editors',
  example: '> virtset.schema.json',
  words: [new Argument('[kind]', 'only this kind')],
  flags: ['outDir'],
  async run([kind], flags, world) {
    const { printSchemas } = await import('./schema.ts')
    return withOutput(flags, world, async (output) => {
      await printSchemas(kind, output, flags.outDir !== undefined)
      return exitCodes.fine
    })
  },
}

const completion: Entry = {
  name: 'completion',
  description: 'a script by which a shell completes commands and flags',
  example: 'bash > /etc/bash_completion.d/kubectl-vm',
  words: [new Argument('<shell>').choices(['bash', 'zsh', 'fish', 'kubectl'])],
  flags: [],
  async run([shell = ''], _, world) {
    const { shellScript } = await import('./shell.ts')
    world.out(shellScript(shell))
    return exitCodes.fine
  },
}

const powers: { readonly [V in Verb]: string } = {
  start: 'starts the VM of a VirtualMachineConfig',
  stop: 'asks the VM of a VirtualMachineConfig to power off',
  restart: 'puts another VM, of the template as it is now, in the place of the one that runs',
}

const powerEntry = (name: Verb): Entry => ({
  name,
  description: powers[name],
  example: 'web --wait',
  words: [new Argument('<name>', 'a VirtualMachineConfig')],
  flags: [
    new Option('--wait', 'until it is done, telling how far it is'),
    new Option('--timeout <seconds>', 'how long to wait').argParser(wholeNumber).default(300),
    ...(name === 'start'
      ? []
      : [
          new Option('--grace-period <seconds>', "how long the guest may take; its spec's where absent").argParser(
            wholeNumber,
          ),
        ]),
    new Option('--dry-run', 'do everything but write'),
    new Option('-n, --namespace <name>', "its namespace; the context's where absent"),
    ...clusterFlags,
  ],
  async run([config = ''], flags: Flags & PowerFlags, world) {
    const [{ power }, cluster] = await Promise.all([import('./power.ts'), clusterOf(flags, world, '')])
    try {
      return await power(name, config, flags, cluster, world)
    } finally {
      await cluster.kube.close()
    }
  },
})

/** In the order in which the help has them. */
export const commands: readonly Entry[] = [
  complete,
  explain,
  diff,
  test,
  impact,
  powerEntry('start'),
  powerEntry('stop'),
  powerEntry('restart'),
  importing,
  exporting,
  lint,
  schema,
  completion,
]
