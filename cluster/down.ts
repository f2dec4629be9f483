import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { knownKubectl } from './binaries.ts'
import { processesInCgroups, removeCgroups } from './cgroup.ts'
import { attempt } from './command.ts'
import { mountPoints, namespaceHolder, removeCreated, removeNamespaces } from './namespace.ts'
import { removeNetwork } from './network.ts'
import { recordedNames, stopProcess } from './process.ts'
import type { Progress } from './progress.ts'
import type { Settings } from './settings.ts'
import { removeLoopDevices } from './storage.ts'
import { kubeconfigOf, kubectlOf, processDirectories } from './up.ts'

const podsDeadlineMs = 20_000

/**
 * Stops the cluster and removes its state. Pods are deleted first, while kubelets can still tear down their networks
 * and volumes; the rest is killed. Each step also works after an incomplete run.
 */
export async function bringDown(progress: Progress, settings: Settings): Promise<void> {
  const { state } = settings
  if (!existsSync(state)) return
  const directories = processDirectories(settings)
  const stop = async (...prefixes: string[]) => {
    for (const name of recordedNames(directories))
      if (prefixes.some((prefix) => name.startsWith(prefix))) await stopProcess(directories, name)
  }
  const remedy = `run it again; the processes that did not end are in ${directories.records}`
  await progress.step('Pods', remedy, async (step) => {
    // These would replace the deleted pods.
    await stop('kube-controller-manager', 'kube-scheduler')
    const kubectl = kubectlIn(settings)
    if (kubectl === undefined) return step.show('no API server')
    const remove = [
      ...kubectl,
      'delete',
      'pods',
      '--all',
      '--all-namespaces',
      '--grace-period=1',
      '--request-timeout=5s',
    ]
    const timeoutMs = podsDeadlineMs
    if ((await attempt([...remove, `--timeout=${podsDeadlineMs / 1000}s`], { log: step.log, timeoutMs })) === undefined)
      step.show('the API server does not respond, or pods do not end: killing them')
  })
  await progress.step('Processes', remedy, async (step) => {
    await stop('kubelet', 'kube-proxy')
    // Containers first, while their shims can still clean up; then the shims.
    await killAll(step.log, () => processesInCgroups())
    await killAll(step.log, () => processesWith(join(state, 'nodes')))
    await stop('containerd')
    await stop('kube-apiserver')
    await stop('')
  })
  await progress.step('Mounts, network and cgroups', remedy, async (step) => {
    await removeNamespaces(step, namespaceHolder(state))
    for (const point of mountPoints()
      .filter((each) => each.startsWith(`${state}/`))
      .toReversed())
      await step.run(['umount', '--lazy', point])
    await removeLoopDevices(step, state)
    await removeNetwork(step, state)
    removeCgroups()
    removeCreated(join(state, 'created'))
  })
  await progress.step('State', `rm -rf ${state}`, async () => rmSync(state, { recursive: true }))
}

function kubectlIn(settings: Settings): string[] | undefined {
  const program = knownKubectl(settings)
  return program === undefined || !existsSync(kubeconfigOf(settings)) ? undefined : kubectlOf(settings, program)
}

/** The shims of this cluster's containers: their command line contains the path of containerd's socket. */
function processesWith(path: string): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const [program = '', ...rest] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
        return program.endsWith('containerd-shim-runc-v2') && rest.some((each) => each.startsWith(path))
      } catch {
        // It has ended in the meantime.
        return false
      }
    })
}

/** Kills until no process is left. */
async function killAll(log: string, list: () => number[]): Promise<void> {
  const deadline = Date.now() + podsDeadlineMs
  for (let pids = list(); pids.length > 0; pids = list()) {
    if (Date.now() > deadline) throw new Error(`processes ${pids.join(', ')} do not end, see ${log}`)
    for (const pid of pids) {
      try {
        process.kill(pid, 'SIGKILL')
      } catch {
        // It has ended in the meantime.
      }
    }
    await sleep(100)
  }
}
