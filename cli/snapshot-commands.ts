import { Argument, Option } from 'commander'
import type { Entry } from './entry.ts'
import { clusterFlags, wholeNumber, type Flags } from './flags.ts'
import { NameArgument, runningVm } from './name-argument.ts'
import { withCluster } from './session.ts'
import type { CloneFlags, RestoreFlags, SnapshotFlags } from './snapshot.ts'

const namespace = new Option('-n, --namespace <name>', 'namespace of the objects (default: that of the context)')
const dryRun = new Option('--dry-run', 'check the requests without executing them')
const timeout = (what: string) =>
  new Option('--timeout <seconds>', `how long ${what}`).argParser(wholeNumber).default(300)

const snapshotName = new NameArgument('<snapshot>', 'a VirtualMachineSnapshot', ['virtualMachineSnapshots'])

const snapshot: Entry = {
  name: 'snapshot',
  description: 'create a VirtualMachineSnapshot of the claims of a VM',
  example: 'web',
  words: [new NameArgument('<name>', 'a VirtualMachineConfig, or a VirtualMachine', runningVm)],
  flags: [
    new Option('--name <snapshot>', 'name of the snapshot (default: that of the VM, with a suffix)'),
    new Option('--class <name>', 'class of the VolumeSnapshots (default: that of the driver)'),
    new Option('--wait', 'wait until the snapshot is ready, and show the progress'),
    timeout('--wait waits'),
    dryRun,
    namespace,
    ...clusterFlags,
  ],
  writes: true,
  async run([name = ''], flags: Flags & SnapshotFlags, world) {
    const { takeSnapshot } = await import('./snapshot.ts')
    return withCluster(flags, world, (cluster) => takeSnapshot(name, flags, cluster, world))
  },
}

const restore: Entry = {
  name: 'restore',
  description: 'replace the claims of a stopped VirtualMachineConfig by claims from a snapshot of it',
  example: 'db nightly',
  words: [new NameArgument('<name>', 'a VirtualMachineConfig', ['virtualMachineConfigs']), snapshotName],
  flags: [timeout('to wait until the claims are replaced'), dryRun, namespace, ...clusterFlags],
  writes: true,
  async run([name = '', from = ''], flags: Flags & RestoreFlags, world) {
    const { restoreSnapshot } = await import('./snapshot.ts')
    return withCluster(flags, world, (cluster) => restoreSnapshot([name, from], flags, cluster, world))
  },
}

const clone: Entry = {
  name: 'clone',
  description: 'create a VirtualMachineConfig like that of a snapshot, with claims from the snapshot',
  example: 'nightly db-copy',
  words: [snapshotName, new Argument('<name>', 'the new VirtualMachineConfig')],
  flags: [dryRun, namespace, ...clusterFlags],
  writes: true,
  async run([from = '', name = ''], flags: Flags & CloneFlags, world) {
    const { cloneSnapshot } = await import('./snapshot.ts')
    return withCluster(flags, world, (cluster) => cloneSnapshot([from, name], flags, cluster, world))
  },
}

export const snapshotCommands: readonly Entry[] = [snapshot, restore, clone]
