import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join, resolve } from 'node:path'

import { cgroupOf } from '../../cluster/cgroup.ts'
import { attempt } from '../../cluster/command.ts'
import { spareNode } from '../../cluster/network.ts'
import { nodePaths } from '../../cluster/node.ts'
import { isAlive, readRecord } from '../../cluster/process.ts'
import { readSettings } from '../../cluster/settings.ts'
import { processDirectories } from '../../cluster/up.ts'
import { crash } from '../chaos/daemons.ts'
import { processesOfPod, type TestCluster } from './cluster.ts'

/** Whether the cluster has the spare node, which `make test` adds and `make up` does not. */
export const hasSpareNode = (): boolean => existsSync(join(process.env['VIRTSET_STATE'] ?? '', 'nodes', spareNode.name))

/** The spare node: tests let VMs onto it and break it. */
export interface Spare {
  readonly name: string
  uncordon(): Promise<void>
  cordon(): Promise<void>
  /** Restarts the kubelet with additional lines of configuration. */
  reconfigureKubelet(lines: string): Promise<void>
  /** Kills the kubelet, containerd and all processes in pods, as the loss of power does. */
  powerOff(): Promise<void>
  /** Reverts everything: the node is cordoned, Ready and has a ready handler. */
  repair(): Promise<void>
}

const outOfService = 'node.kubernetes.io/out-of-service'
const cordoned = 'node.kubernetes.io/unschedulable'

export function openSpare(cluster: TestCluster): Spare {
  const { name } = spareNode
  const { state } = cluster
  const kubectl = (...rest: string[]) => cluster.kubectl(...rest)
  const directories = processDirectories(readSettings(resolve(import.meta.dirname, '../..'), process.env))
  const configuration = join(nodePaths(state, name).configuration, 'kubelet.yaml')
  const original = readFileSync(configuration, 'utf8')
  const processes = () => processesOfPod(`${cgroupOf(name)}/`, () => true)
  const kill = (program: string) => crash(directories, state, `${program}-${name}`)
  let lost: { readonly startKubelet: () => Promise<void>; readonly startContainerd: () => Promise<void> } | undefined

  const restartKubelet = async (text: string): Promise<void> => {
    const start = await kill('kubelet')
    writeFileSync(configuration, text)
    // A kubelet does not start with the state of another CPU manager policy.
    rmSync(join(state, 'nodes', name, 'kubelet/cpu_manager_state'), { force: true })
    await start()
  }
  /** As systemd does: a kubelet ends if containerd does not serve yet, which takes seconds after a crash. */
  const ensureKubelet = async (): Promise<void> => {
    const record = readRecord(directories, `kubelet-${name}`)
    if (record !== undefined && isAlive(record)) return
    await lost?.startKubelet().catch(() => {})
  }
  const isRepaired = async (): Promise<true | undefined> => {
    const node = JSON.parse(await kubectl('get', 'node', name, '-o', 'json'))
    const ready = node.status.conditions.find(({ type }: { type: string }) => type === 'Ready')
    const taints = node.spec.taints.map(({ key }: { key: string }) => key).join()
    const hasHandler = processesOfPod(`${cgroupOf(name)}/`, (command) => command.includes('handler/main.ts')).length > 0
    return ready.status === 'True' && taints === cordoned && hasHandler ? true : undefined
  }

  return {
    name,
    uncordon: async () => void (await kubectl('uncordon', name)),
    cordon: async () => void (await kubectl('cordon', name)),
    reconfigureKubelet: (lines) => restartKubelet(original + lines),
    async powerOff() {
      const [startKubelet, startContainerd] = await Promise.all([kill('kubelet'), kill('containerd')])
      lost = { startKubelet, startContainerd }
      await cluster.until('no process is left on the spare node', async () => {
        const left = processes()
        for (const pid of left) killIfAlive(pid)
        return left.length === 0 ? true : undefined
      })
    },
    async repair() {
      await kubectl('cordon', name)
      await attempt([...cluster.command, 'taint', 'node', name, `${outOfService}-`])
      await lost?.startContainerd()
      if (readFileSync(configuration, 'utf8') !== original) await restartKubelet(original)
      await cluster.until('the spare node is repaired', async () => {
        await ensureKubelet()
        return isRepaired()
      })
      lost = undefined
      await kubectl('-n', 'virtset-system', 'rollout', 'status', 'daemonset/virtset-handler', '--timeout=240s')
    },
  }
}

function killIfAlive(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended in the meantime.
  }
}
