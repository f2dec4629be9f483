import type { Snapshot, Qemu } from './checker.ts'

/** The actions of a restore. */
export interface Restore {
  /** Kills a process of the cluster and waits until it has ended; returns a function that starts it again. */
  kill(name: string): Promise<() => Promise<void>>
  replaceData(): void
  untilReady(): Promise<void>
  untilOnlyBoundPodsRun(): Promise<void>
}

/** They bind and delete pods, by what the API server has. */
const deciders = ['kube-scheduler', 'kube-controller-manager']
const servers = ['kube-apiserver', 'etcd']

/**
 * Restores etcd from a backup, in the order of docs/restore-etcd.md. In the backup, a pod that runs can be without a
 * node. The scheduler would bind it to another node while its QEMU still runs, so it must wait for the kubelets.
 * @param names of all recorded processes
 */
export async function restore(names: readonly string[], actions: Restore): Promise<void> {
  const killAll = (those: readonly string[]) => Promise.all(those.map((name) => actions.kill(name)))
  const startDeciders = await killAll(deciders)
  const startKubelets = await killAll(names.filter((name) => name.startsWith('kubelet-')))
  const startServers = await killAll(servers)
  actions.replaceData()
  for (const start of startServers.toReversed()) await start()
  await actions.untilReady()
  for (const start of startKubelets) await start()
  await actions.untilOnlyBoundPodsRun()
  for (const start of startDeciders.toReversed()) await start()
}

/** QEMUs on another node than the one to which the API server binds their pod; undefined if it does not respond. */
export function unboundQemus({ qemus, objects }: Snapshot): readonly Qemu[] | undefined {
  const bound = objects && new Map(objects.pods.map(({ uid, nodeName }) => [uid, nodeName]))
  return bound && qemus.filter(({ podUid, node }) => bound.get(podUid) !== node)
}
