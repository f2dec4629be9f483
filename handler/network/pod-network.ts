import { closeSync, constants, fstatSync, openSync, readdirSync, readFileSync, statSync } from 'node:fs'

/** Linux's O_PATH, as in handler/socket.ts. */
const O_PATH = 0o10000000

/** An open network namespace of a pod. */
export interface PodNetwork {
  /** Of the namespace. It keeps the namespace, even if every process of the pod ends. */
  readonly fd: number
  close(): void
}

/**
 * Opens the network namespace of the pod `podUID`; undefined if no process of the pod runs.
 *
 * The kernel's word alone decides which process belongs to the pod: its control group, which the kubelet named and which
 * processes in a pod cannot leave. The oldest process is the pod's own, which the container runtime starts before any
 * container. It is held by a descriptor of its directory in /proc and looked at again afterwards, so that a process of
 * another pod that gets the same number in the meantime is never taken for it.
 *
 * @param proc usually /proc, which shows the processes of the node
 * @throws if processes outside of pods are in it, as with `hostNetwork`: it is the network namespace of the node itself
 */
export function openPodNetwork(proc: string, podUID: string): PodNetwork | undefined {
  const processes = readdirSync(proc)
    .filter((name) => /^[0-9]+$/.test(name))
    .map((name) => `${proc}/${name}`)
  const pods = new Map(processes.map((process) => [process, podOf(tryRead(`${process}/cgroup`) ?? '')]))
  const [oldest] = processes
    .filter((process) => pods.get(process) === podUID)
    .map((process) => ({ process, startedAt: startOf(process) }))
    .toSorted((one, other) => one.startedAt - other.startedAt)
  if (oldest === undefined) return undefined
  const directory = tryOpen(oldest.process, O_PATH | constants.O_DIRECTORY)
  if (directory === undefined) return undefined
  try {
    const at = `/proc/self/fd/${directory}`
    const fd = tryOpen(`${at}/ns/net`, constants.O_RDONLY)
    if (fd === undefined) return undefined
    const close = () => closeSync(fd)
    if (podOf(tryRead(`${at}/cgroup`) ?? '') !== podUID) {
      close()
      return undefined
    }
    const { ino } = fstatSync(fd)
    if (processes.some((process) => pods.get(process) === undefined && networkOf(process) === ino)) {
      close()
      throw new Error(`pod ${podUID} has the network of the node`)
    }
    return { fd, close }
  } finally {
    closeSync(directory)
  }
}

/** A component of a control group's path that names a pod, with the kubelet's drivers `cgroupfs` and `systemd`. */
const podComponent = /^(?:.*-)?pod([0-9a-f]{8}(?:[-_][0-9a-f]{4}){3}[-_][0-9a-f]{12})(?:\.slice)?$/

/** The uid of the pod to which a process belongs, by the content of its file `cgroup`. */
export function podOf(cgroup: string): string | undefined {
  for (const line of cgroup.split('\n')) {
    const path = line.split(':').slice(2).join(':')
    // The outermost: a container that manages control groups of its own can name those below it as it likes.
    const uid = path
      .split('/')
      .map((component) => podComponent.exec(component)?.[1])
      .find((found) => found !== undefined)
    if (uid !== undefined) return uid.replaceAll('_', '-')
  }
  return undefined
}

/** The number of the network namespace of a process. */
function networkOf(process: string): number | undefined {
  return unlessGone(() => statSync(`${process}/ns/net`).ino)
}

/** In clock ticks since the node's boot. The name of the program, in parentheses, can contain anything. */
function startOf(process: string): number {
  const stat = tryRead(`${process}/stat`) ?? ''
  const started = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19])
  return Number.isNaN(started) ? Infinity : started
}

function tryRead(path: string): string | undefined {
  return unlessGone(() => readFileSync(path, 'utf8'))
}

function tryOpen(path: string, flags: number): number | undefined {
  return unlessGone(() => openSync(path, flags))
}

/** Processes end at any time, and some are protected even from root. */
function unlessGone<T>(read: () => T): T | undefined {
  try {
    return read()
  } catch (error) {
    if (
      error instanceof Error &&
      'code' in error &&
      ['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes(String(error.code))
    )
      return undefined
    throw error
  }
}
