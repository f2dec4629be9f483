import { closeSync, constants, fstatSync, openSync, readFileSync } from 'node:fs'
import { podOf } from './pod-group.ts'
import { unlessGone } from './unless-gone.ts'

/** Linux's O_PATH, as in handler/socket.ts. */
const O_PATH = 0o10000000

/** An open network namespace of a pod. */
export interface PodNetwork {
  /** Of the namespace. It keeps the namespace, even if every process of the pod ends. */
  readonly fd: number
  close(): void
}

interface NodeProcesses {
  /** Usually /proc, which shows the processes of the node. */
  readonly proc: string
  /** The processes of a pod; some of them if it has many. */
  readonly processesOf: (podUID: string) => readonly number[]
  /** The numbers of the network namespaces of `openNodeNetworks`. */
  readonly nodeNetworks: ReadonlySet<number>
}

/**
 * Opens the network namespace of the pod `podUID`; undefined if no process of the pod runs.
 *
 * The kernel's word alone decides which process belongs to the pod: its control group, which the kubelet named and which
 * processes in a pod cannot leave. The oldest process is the pod's own, which the container runtime starts before any
 * container; older ones can only be the runtime's, in the network of the node (conmon of CRI-O). It is held by a descriptor of its directory in /proc and looked at again afterwards, so that a process of
 * another pod that gets the same number in the meantime is never taken for it.
 *
 * @throws if it is a network namespace of the node, as with `hostNetwork`
 */
export function openPodNetwork(
  { proc, processesOf, nodeNetworks }: NodeProcesses,
  podUID: string,
): PodNetwork | undefined {
  const oldest = processesOf(podUID)
    .map((pid) => `${proc}/${pid}`)
    .map((process) => ({ process, startedAt: startOf(process) }))
    .toSorted((one, other) => one.startedAt - other.startedAt)
    .slice(0, mostOpened)
  let isOfNode = false
  for (const { process } of oldest) {
    const network = openNetworkOf(process, podUID)
    if (network === undefined) continue
    if (!nodeNetworks.has(fstatSync(network.fd).ino)) return network
    network.close()
    isOfNode = true
  }
  if (isOfNode) throw new Error(`pod ${podUID} has the network of the node`)
  return undefined
}

/** A container runtime can have monitors of its own in the group of a pod, one of each container. */
const mostOpened = 32

/** Undefined if the process has ended, or is not one of the pod. */
function openNetworkOf(process: string, podUID: string): PodNetwork | undefined {
  const directory = tryOpen(process, O_PATH | constants.O_DIRECTORY)
  if (directory === undefined) return undefined
  try {
    const at = `/proc/self/fd/${directory}`
    const fd = tryOpen(`${at}/ns/net`, constants.O_RDONLY)
    if (fd === undefined) return undefined
    const close = () => closeSync(fd)
    if (podOf(tryRead(`${at}/cgroup`) ?? '') === podUID) return { fd, close }
    close()
    return undefined
  } finally {
    closeSync(directory)
  }
}

/**
 * Opens the network namespaces of the agent and of the processes that started it: the container runtime, from which pods
 * with `hostNetwork` have theirs, and what started that. They stay open, so their numbers stay theirs. Some processes are
 * protected even from root, but not the runtime's.
 *
 * @param proc usually /proc, which shows the processes of the node
 * @throws if that of the agent or of the runtime cannot be opened, such as without `hostPID`
 */
export function openNodeNetworks(proc: string, agent: number): Set<number> {
  const runtime = parentOf(`${proc}/${agent}`)
  if (runtime === 0) throw new Error('the network agent does not see the processes of its node; it needs hostPID')
  const networks = [agent, runtime].map((pid) => openSync(`${proc}/${pid}/ns/net`, 'r'))
  for (let pid = parentOf(`${proc}/${runtime}`); pid > 0; pid = parentOf(`${proc}/${pid}`))
    networks.push(...[tryOpen(`${proc}/${pid}/ns/net`, constants.O_RDONLY)].filter((fd) => fd !== undefined))
  return new Set(networks.map((fd) => fstatSync(fd).ino))
}

/** The fields of `stat` from the third on. The name of the program, in parentheses, can contain anything. */
function fieldsOf(stat: string): string[] {
  return stat.slice(stat.lastIndexOf(')') + 2).split(' ')
}

/** 0 for a process that no other process of the node has started. */
const parentOf = (process: string): number => Number(fieldsOf(readFileSync(`${process}/stat`, 'utf8'))[1])

/** In clock ticks since the node's boot. */
function startOf(process: string): number {
  const started = Number(fieldsOf(tryRead(`${process}/stat`) ?? '')[19])
  return Number.isNaN(started) ? Infinity : started
}

function tryRead(path: string): string | undefined {
  return unlessGone(() => readFileSync(path, 'utf8'))
}

function tryOpen(path: string, flags: number): number | undefined {
  return unlessGone(() => openSync(path, flags))
}
