import { Argument, Option } from 'commander'
import type { Entry } from './entry.ts'
import { errorLine } from './error-line.ts'
import { Usage, exitCodes, type ExitCode } from './failure.ts'
import { clusterFlags, completionFlags, outputFlag, repeatable, wholeNumber, type Flags } from './flags.ts'
import type { AttachFlags } from './attached-volume.ts'
import type { MediaFlags } from './media.ts'
import { NameArgument } from './name-argument.ts'
import type { PowerFlags, Verb } from './power.ts'
import {
  capabilitiesOf,
  clusterOf,
  paintOf,
  withCluster,
  withCompletion,
  withKinds,
  withOutput,
  withProgress,
} from './session.ts'
import { sessionCommands } from './session-commands.ts'
import { snapshotCommands } from './snapshot-commands.ts'
import type { World } from './world.ts'

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
  'VMs, configs, groups, objects of other kinds, or Domain XML: files, directories, or - for standard input',
)

const complete: Entry = {
  name: 'complete',
  description: 'print the completed VM as YAML, JSON or Domain XML',
  example: 'vm.yaml --presets presets/ --provenance',
  words: [vmFiles],
  flags: [
    outputFlag('yaml', 'json', 'xml'),
    new Option('--provenance', 'show the origin of each field'),
    'schema',
    new Option('--out-dir <dir>', 'write one file per VM, with causes, warnings and provenance beside it'),
    new Option('--watch', 'complete again whenever a file changes'),
    'strict',
    ...completionFlags,
    'quiet',
  ],
  async run(files, flags: CompleteFlags, world) {
    const once = () => completeFiles(files, flags, world)
    if (flags.watch !== true) return once()
    // Starts to watch before the first completion, so that no change is missed.
    const changes = await world.changes([...files, ...(flags.presets || [])])
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

/** A file that is temporarily unreadable, while an editor writes it, does not end the watch. */
async function unlessUnreadable(once: () => Promise<ExitCode>, world: World): Promise<ExitCode> {
  try {
    return await once()
  } catch (error) {
    if (!(error instanceof Usage)) throw error
    world.err(errorLine(error.message))
    return exitCodes.usage
  }
}

const explain: Entry = {
  name: 'explain',
  description: 'show what set each field of a VM, and why presets were applied or not',
  example: 'web spec.domain.cpu',
  words: [
    new NameArgument('<vm>', 'a VM in the cluster as NAME or NAMESPACE/NAME, or a file', ['virtualMachines']),
    new Argument('[path]', 'only this field and those below it, for example spec.domain.devices.disks[0]'),
  ],
  flags: [outputFlag('text', 'json'), 'schema', ...completionFlags, 'color'],
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
  description: 'show as a diff what completion adds to a VM',
  example: 'vm.yaml --presets presets/',
  exits: { code: 1, when: 'completion adds something' },
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
  description: 'run tests of presets (*.vmtest.yaml, *.presettest.yaml)',
  example: 'presets/ --junit report.xml',
  words: [new Argument('<path...>', '*.vmtest.yaml and *.presettest.yaml files, or directories that contain them')],
  flags: [
    new Option('--update', 'replace the expectations with the actual results'),
    new Option('--junit <file>', 'write a report as JUnit XML'),
    'capabilities',
    'schema',
    ...clusterFlags,
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
    return withKinds(flags, world, (kinds) => testPresets(paths, { ...settings, kinds }, world))
  },
}

const impact: Entry = {
  name: 'impact',
  description: 'show which existing VMs, or objects of other kinds, would differ with these presets',
  example: '--presets new.yaml',
  exits: { code: 1, when: 'a VM would differ' },
  words: [],
  flags: [
    repeatable('--presets <path>', 'presets to apply: a file or directory (repeatable)').makeOptionMandatory(),
    repeatable(
      '--vms <dir>',
      'read VMs, objects of other kinds, and current presets from this file or directory instead of the cluster (repeatable)',
    ),
    'schema',
    new Option('--limit <n>', 'VMs or objects to show per namespace').argParser(wholeNumber).default(10),
    'capabilities',
    outputFlag('text', 'json'),
    new Option(
      '-n, --namespace <name>',
      'only VMs of this namespace; also the namespace of presets and VMs of files without one',
    ),
    ...clusterFlags,
    'quiet',
    'color',
  ],
  async run(_, flags: ImpactFlags, world) {
    const { impact: assess, withoutClusterVms } = await import('./impact.ts')
    const { vms, namespace, output: format, limit } = flags
    const source = {
      ...(vms === undefined ? {} : { files: vms }),
      ...(namespace === undefined ? {} : { namespace }),
      cluster: () => clusterOf(flags, world, withoutClusterVms),
      ...(flags.capabilities === undefined ? {} : { capabilities: await capabilitiesOf(flags.capabilities) }),
    }
    const how = { format, limit, quiet: flags.quiet === true, paint: await paintOf(flags, world) }
    return withKinds(flags, world, (kinds) =>
      withProgress(world, (step) => assess(flags.presets, { ...source, kinds }, how, world, step)),
    )
  },
}

const importing: Entry = {
  name: 'import',
  description: "convert libvirt's Domain XML to VMs",
  example: '--from qemu:///system > vms.yaml',
  words: [new Argument('[file...]', 'Domain XML; - for standard input')],
  flags: [
    outputFlag('yaml', 'json'),
    'outDir',
    new Option('--from <uri>', 'import the domains of the local libvirt daemon: qemu:///system or qemu:///session'),
    new Option('--socket <path>', "the daemon's socket, if it is not in a usual place"),
  ],
  async run(files, flags: ImportFlags, world) {
    const isDaemon = flags.from !== undefined || flags.socket !== undefined
    if (isDaemon === files.length > 0) throw new Usage('import requires files, or --from URI or --socket PATH')
    const { importAll } = await import('./convert.ts')
    const inputs = isDaemon
      ? (await import('./running-domains.ts')).readRunningDomains(flags, world)
      : (await import('./input.ts')).readInputs(files, world.stdin)
    return withOutput(flags, world, (output, step) => importAll(inputs, flags.output, output, world, step))
  },
}

const exporting: Entry = {
  name: 'export',
  description: "convert VMs to libvirt's Domain XML, without completion",
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
  description: 'check presets as admission does, and find conflicts among them',
  example: 'presets/ --strict',
  words: [new Argument('<path...>', 'presets: files, directories, or - for standard input')],
  flags: [
    'schema',
    'strict',
    new Option('-n, --namespace <name>', 'namespace of presets without one'),
    ...clusterFlags,
    'quiet',
  ],
  async run(paths, flags, world) {
    const [{ lint: lintAll }, { readInputs }] = await Promise.all([import('./lint.ts'), import('./input.ts')])
    const { namespace = 'default', strict, quiet } = flags
    return withKinds(flags, world, (kinds) => {
      const how = { namespace, strict: strict === true, quiet: quiet === true, kinds }
      return lintAll(readInputs(paths, world.stdin), how, world)
    })
  },
}

const schema: Entry = {
  name: 'schema',
  description: 'print JSON Schemas of the kinds, for editors',
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
  description: 'print a completion script for a shell',
  example: 'bash > /etc/bash_completion.d/kubectl-vm',
  words: [
    new Argument('<shell>', 'kubectl completes `kubectl vm`; the others, `kubectl-vm`').choices([
      'bash',
      'zsh',
      'fish',
      'kubectl',
    ]),
  ],
  flags: [],
  async run([shell = ''], _, world) {
    const { shellScript } = await import('./shell.ts')
    world.out(shellScript(shell, world.plugin))
    return exitCodes.fine
  },
}

const powers: { readonly [V in Verb]: string } = {
  start: 'start the VM of a VirtualMachineConfig',
  stop: 'power off the VM of a VirtualMachineConfig',
  restart: 'replace the running VM of a VirtualMachineConfig with one from the current template',
}

const powerEntry = (name: Verb): Entry => ({
  name,
  description: powers[name],
  example: 'web --wait',
  words: [new NameArgument('<name>', 'a VirtualMachineConfig', ['virtualMachineConfigs'])],
  flags: [
    new Option('--wait', 'wait until the VM has started or stopped, and show the progress'),
    new Option('--timeout <seconds>', 'how long --wait waits').argParser(wholeNumber).default(300),
    ...(name === 'start'
      ? []
      : [
          new Option(
            '--grace-period <seconds>',
            'how long the guest has to power off (default: as in its spec)',
          ).argParser(wholeNumber),
        ]),
    new Option('--dry-run', 'check the request without executing it'),
    new Option('-n, --namespace <name>', 'namespace of the config (default: that of the context)'),
    ...clusterFlags,
  ],
  writes: true,
  async run([config = ''], flags: Flags & PowerFlags, world) {
    const { power } = await import('./power.ts')
    return withCluster(flags, world, (cluster) => power(name, config, flags, cluster, world))
  },
})

const media: Entry = {
  name: 'media',
  description: 'change the medium in a CD drive of a VM, also while it runs',
  example: 'installer sda --insert drivers',
  words: [
    new NameArgument('<name>', 'a VirtualMachine', ['virtualMachines']),
    new Argument('<drive>', 'the drive, by the `target.dev` of its disk'),
  ],
  flags: [
    new Option('--insert <volume>', 'one of the volumes of the VM'),
    new Option('--eject', 'leave the drive empty'),
    new Option('--dry-run', 'check the request without executing it'),
    new Option('-n, --namespace <name>', 'namespace of the VM (default: that of the context)'),
    ...clusterFlags,
  ],
  writes: true,
  async run([name = '', drive = ''], flags: Flags & MediaFlags, world) {
    const { changeMedium } = await import('./media.ts')
    return withCluster(flags, world, (cluster) => changeMedium([name, drive], flags, cluster, world))
  },
}

const attachment = (name: string, description: string, example: string, flags: readonly Option[]) => ({
  name,
  description,
  example,
  words: [
    new NameArgument('<name>', 'a VirtualMachine', ['virtualMachines']),
    new Argument('<claim>', 'a PersistentVolumeClaim of its namespace'),
  ],
  flags: [
    ...flags,
    new Option('--dry-run', 'check the request without executing it'),
    new Option('-n, --namespace <name>', 'namespace of the VM (default: that of the context)'),
    ...clusterFlags,
  ],
  writes: true as const,
})

const attach: Entry = {
  ...attachment('attach', 'attach a claim to a VM as a disk, also while it runs', 'web data --as vdb', [
    new Option('--as <dev>', 'the name of the disk, such as vdb (default: the next free one)'),
    new Option('--bus <bus>', 'virtio or scsi (default: that of the name, or virtio)'),
    new Option('--read-only', 'the guest can only read it'),
    new Option('--serial <text>', 'the serial number of the disk'),
  ]),
  async run([name = '', claim = ''], flags: Flags & AttachFlags, world) {
    const { attach: attachClaim } = await import('./attached-volume.ts')
    return withCluster(flags, world, (cluster) => attachClaim([name, claim], flags, cluster, world))
  },
}

const detach: Entry = {
  ...attachment('detach', 'detach a claim from a VM', 'installer data', []),
  async run([name = '', claim = ''], flags: Flags & AttachFlags, world) {
    const { detach: detachClaim } = await import('./attached-volume.ts')
    return withCluster(flags, world, (cluster) => detachClaim([name, claim], flags, cluster, world))
  },
}

/** In the order shown by the help. */
export const commands: readonly Entry[] = [
  complete,
  explain,
  diff,
  test,
  impact,
  powerEntry('start'),
  powerEntry('stop'),
  powerEntry('restart'),
  ...sessionCommands,
  ...snapshotCommands,
  media,
  attach,
  detach,
  importing,
  exporting,
  lint,
  schema,
  completion,
]
