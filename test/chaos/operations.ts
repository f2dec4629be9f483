import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { cpSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { attempt, run } from '../../cluster/command.ts'
import { chaosTable, possibleNodes } from '../../cluster/network.ts'
import { recordedNames, type ProcessDirectories } from '../../cluster/process.ts'
import type { Chance } from '../chance.ts'
import { processesOfPod, type TestCluster } from '../cluster/cluster.ts'
import { deaf } from '../cluster/vms.ts'
import { crash, freeze } from './daemons.ts'
import { findQemus, observe } from './observe.ts'
import { restore, unboundQemus } from './restore.ts'

export interface World {
  readonly cluster: TestCluster
  readonly directories: ProcessDirectories
  readonly chance: Chance
  /** Must be called before etcd is restored. */
  readonly onSetBack: () => void
}

/** An action of a user or operator, or a fault. */
export interface Operation {
  readonly name: string
  readonly weight: number
  /** @returns its target, or undefined if there was none */
  run(world: World): Promise<string | undefined>
}

const vmNames = Array.from({ length: 8 }, (_, index) => `vm-${index}`)
/** VMs with these names each write to their own claim, always to the same file. */
export const claimedNames = vmNames.slice(0, 3)

/** Does not wait, and ignores refusals: the cluster may be unavailable, or the object deleted. */
const kubectl = ({ cluster }: World, ...rest: string[]) =>
  attempt([...cluster.command, '--request-timeout=10s', ...rest])

const user: readonly Operation[] = [
  {
    name: 'create',
    weight: 12,
    async run(world) {
      const name = world.chance.pick(vmNames)!
      const source = claimedNames.includes(name)
        ? { persistentVolumeClaim: { claimName: name } }
        : { emptyDisk: { capacity: '8Mi' } }
      const volume = { name: 'disk', ...source }
      const disks = [{ type: 'volume', device: 'disk', source: { volume: 'disk' }, target: { dev: 'vda' } }]
      const grace = { terminationGracePeriodSeconds: world.chance.pick([0, 1, 5])! }
      const vm = deaf(name, { ...grace, volumes: [volume] }, { devices: { disks } })
      const input = JSON.stringify(vm)
      const created = await attempt([...world.cluster.command, '--request-timeout=10s', 'create', '-f', '-'], { input })
      return created === undefined ? undefined : name
    },
  },
  onVm('delete', 6, (world, name) => kubectl(world, 'delete', 'vm', name, '--wait=false')),
  onVm('delete and orphan', 2, (world, name) =>
    kubectl(world, 'delete', 'vm', name, '--wait=false', '--cascade=orphan'),
  ),
  {
    name: 'scale',
    weight: 2,
    async run(world) {
      const replicas = world.chance.pick(['0', '1', '3'])!
      return (await kubectl(world, 'scale', 'vmg/group', `--replicas=${replicas}`)) && replicas
    },
  },
  ...['start', 'stop', 'restart'].map((verb): Operation => {
    const path = (namespace: string) =>
      `/apis/subresources.virtset.io/v1alpha1/namespaces/${namespace}/virtualmachineconfigs/config/${verb}`
    const send = ['replace', '-f', '-', '--raw']
    return {
      name: verb,
      weight: 2,
      async run(world) {
        const command = [...world.cluster.command, '--request-timeout=10s', ...send, path(world.cluster.namespace)]
        return (await attempt(command, { input: '{}' })) && 'config'
      },
    }
  }),
  onPod('delete the pod of', 2, (world, uid) => deletePod(world, uid)),
  onPod('delete by force the pod of', 1, (world, uid) => deletePod(world, uid, '--force', '--grace-period=0')),
]

const insidePods: readonly Operation[] = [
  killInPod('QEMU', 4, '/usr/bin/qemu-system-'),
  killInPod('libvirtd', 4, 'libvirtd'),
  killInPod('the launcher', 2, 'virt-launcher'),
  onPod('stop for 5 s the processes of', 1, async (_, uid) => {
    const pids = processesOfPod(uid, () => true)
    for (const pid of pids) signal(pid, 'SIGSTOP')
    await sleep(5000)
    for (const pid of pids) signal(pid, 'SIGCONT')
    return uid
  }),
]

const ownComponents: readonly Operation[] = ['handler', 'controller', 'webhooks'].map((component) => ({
  name: `kill ${component}`,
  weight: 2,
  run: async ({ chance }) => {
    const pids = pidsInPods((command) => command.includes(`${component}/main.ts`))
    const pid = chance.pick(pids)
    return pid === undefined ? undefined : signal(pid, 'SIGKILL')
  },
}))

/** Processes of the cluster itself. Each runs again when the operation ends. */
const clusterProcesses: readonly Operation[] = [
  ...['kubelet', 'containerd'].map((program) =>
    outage(`kill ${program}`, 1, ({ chance, directories }) => chance.pick(namesOf(directories, program))),
  ),
  ...['kube-apiserver', 'etcd'].map((name) => outage(`kill ${name}`, 1, () => name)),
]

const nodes: readonly Operation[] = [
  {
    name: 'cut off',
    weight: 1,
    async run({ directories, chance }) {
      const kubelet = chance.pick(namesOf(directories, 'kubelet').filter((name) => name !== 'kubelet-node1'))
      if (kubelet === undefined) return undefined
      const node = possibleNodes.find(({ name }) => kubelet === `kubelet-${name}`)
      if (node === undefined) throw new Error(`no such node: ${kubelet}`)
      const goOn = freeze(directories, kubelet)
      await run(['nft', '-f', '-'], { input: cutOff(node.pods) })
      await sleep(55_000)
      await run(['nft', 'delete', 'table', 'ip', chaosTable])
      goOn()
      return kubelet
    },
  },
  {
    name: 'starve',
    weight: 1,
    async run() {
      // They end by themselves, even if this process is killed meanwhile.
      const command = ['--signal=KILL', '40', 'nice', '-n', '-10', process.execPath, '-e', 'for (;;);']
      const hogs = Array.from({ length: 8 }, () => spawn('timeout', command, { stdio: 'ignore' }))
      await Promise.all(hogs.map((hog) => once(hog, 'exit')))
      return 'all nodes'
    },
  },
  {
    // Moves Date before the process's first line.
    name: 'move the handlers’ clock',
    weight: 1,
    async run(world) {
      const ahead = 'const now = Date.now; Date.now = () => now() + 30000'
      const patience = ['-n', 'virtset-system']
      const set = (value: string) =>
        kubectl(world, ...patience, 'set', 'env', 'daemonset/virtset-handler', `NODE_OPTIONS${value}`)
      await set(`=--import=data:text/javascript,${encodeURIComponent(ahead)}`)
      await sleep(60_000)
      await set('-')
      await kubectl(world, ...patience, 'rollout', 'status', 'daemonset/virtset-handler', '--timeout=120s')
      return '30 s ahead'
    },
  },
  onPod('fill the disk of', 1, async ({ cluster }, uid) => {
    const kubelets = join(cluster.state, 'nodes')
    for (const node of readdirSync(kubelets)) {
      const directory = join(kubelets, node, 'kubelet/pods', uid, 'volumes/kubernetes.io~empty-dir/volume-0')
      await attempt(['fallocate', '-l', '64M', join(directory, 'filler')])
    }
  }),
  {
    name: 'set back etcd',
    weight: 1,
    async run({ cluster, directories, onSetBack }) {
      const data = join(cluster.state, 'etcd')
      const backup = `${data}.backup`
      const goOn = freeze(directories, 'etcd')
      cpSync(data, backup, { recursive: true })
      goOn()
      await sleep(30_000)
      await restore(recordedNames(directories), {
        kill: (name) => crash(directories, cluster.state, name),
        replaceData() {
          rmSync(data, { recursive: true })
          renameSync(backup, data)
          onSetBack()
        },
        // kube-controller-manager exits if the API server is not ready within ten seconds.
        untilReady: () => untilReady(cluster),
        untilOnlyBoundPodsRun: () => untilOnlyBoundPodsRun(cluster),
      })
      return '30 s'
    },
  },
]

const untilReady = (cluster: TestCluster) =>
  cluster
    .until('the API server is ready', () =>
      attempt([...cluster.command, 'get', '--raw', '/readyz', '--request-timeout=5s']),
    )
    .then(() => {})

const untilOnlyBoundPodsRun = (cluster: TestCluster) =>
  cluster
    .until(
      'each QEMU is in a pod that is bound to its node',
      async () => (unboundQemus(await observe(cluster))?.length === 0 ? true : undefined),
      120_000,
    )
    .then(() => {})

/** The operations of the short run in `make test`, on one node that other tests use afterwards. */
export const quickOperations: readonly Operation[] = [...user, ...insidePods, ...ownComponents]
export const allOperations: readonly Operation[] = [...quickOperations, ...clusterProcesses, ...nodes]

/** Chooses an operation by weight. */
export function choose({ random }: Chance, operations: readonly Operation[]): Operation {
  let left = random() * operations.reduce((sum, { weight }) => sum + weight, 0)
  const found = operations.find(({ weight }) => (left -= weight) < 0)
  return found ?? operations[0]!
}

function onVm(name: string, weight: number, act: (world: World, vm: string) => Promise<unknown>): Operation {
  return {
    name,
    weight,
    async run(world) {
      const names = (await kubectl(world, 'get', 'vm', '-o', 'jsonpath={.items[*].metadata.name}')) ?? ''
      const vm = world.chance.pick(names.split(' ').filter((each) => each !== ''))
      if (vm === undefined) return undefined
      await act(world, vm)
      return vm
    },
  }
}

/** Runs an operation on the pod of a running QEMU. */
function onPod(name: string, weight: number, act: (world: World, podUid: string) => Promise<unknown>): Operation {
  return {
    name,
    weight,
    async run(world) {
      const uids = await kubectl(world, 'get', 'pods', '-o', 'jsonpath={.items[*].metadata.uid}')
      const qemu = world.chance.pick(findQemus().filter(({ podUid }) => uids?.includes(podUid)))
      if (qemu === undefined) return undefined
      await act(world, qemu.podUid)
      return qemu.podUid
    },
  }
}

function killInPod(what: string, weight: number, program: string): Operation {
  return onPod(`kill ${what} of`, weight, async (_, uid) => {
    for (const pid of processesOfPod(uid, (command) => command.startsWith(program))) signal(pid, 'SIGKILL')
  })
}

async function deletePod(world: World, uid: string, ...more: string[]): Promise<void> {
  const path = `jsonpath={.items[?(@.metadata.uid=="${uid}")].metadata.name}`
  const name = await kubectl(world, 'get', 'pods', '-o', path)
  if (name) await kubectl(world, 'delete', 'pod', name, '--wait=false', ...more)
}

function outage(name: string, weight: number, of: (world: World) => string | undefined): Operation {
  return {
    name,
    weight,
    async run(world) {
      const victim = of(world)
      if (victim === undefined) return undefined
      const start = await crash(world.directories, world.cluster.state, victim)
      await sleep(world.chance.pick([1000, 8000, 30_000])!)
      await start()
      return victim
    },
  }
}

const namesOf = (directories: ProcessDirectories, prefix: string) =>
  recordedNames(directories).filter((name) => name.startsWith(prefix))

const cutOff = (range: string) => `table ip ${chaosTable} {
  chain forward { type filter hook forward priority 0; ip saddr ${range} drop; ip daddr ${range} drop; }
  chain input { type filter hook input priority 0; ip saddr ${range} drop; }
  chain output { type filter hook output priority 0; ip daddr ${range} drop; }
}
`

/** Only processes in pods: other tests run the same programs on this host at the same time. */
const pidsInPods = (isWanted: (command: string) => boolean) => processesOfPod('/pod', isWanted)

function signal(pid: number, name: NodeJS.Signals): string | undefined {
  try {
    process.kill(pid, name)
    return String(pid)
  } catch {
    // It has ended in the meantime.
    return undefined
  }
}
