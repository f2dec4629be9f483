import { readFileSync } from 'node:fs'
import { vmNameLabel } from '../controller/launcher-pod.ts'
import { pods } from '../controller/pod.ts'
import type { KubeClient } from '../runtime/kube.ts'
import { processesOfPod } from '../test/cluster/cluster.ts'

/** The waits of a VM's start, in order. Together they are its whole time. */
export const waits = [
  'API server and webhooks: the VM is stored',
  'controller: the pod is created',
  'scheduler: the pod has a node',
  'kubelet and containerd: the container starts',
  'Node.js: the launcher is ready',
  'controller and handler: the VM is handed over; libvirtd starts',
  'libvirtd: the domain is defined',
  'QEMU starts, and the handler reports it',
] as const
export type Wait = (typeof waits)[number]

/** The handover of the VM ends none of the waits, because the kubelet works on the pod at the same time. */
interface PodTimes {
  createdMs?: number
  boundMs?: number
}

/** Follows the pod of a VM that is created next; times are those of `Date.now()`. */
export async function followPod(kube: KubeClient, namespace: string, vmName: string) {
  const labelSelector = `${vmNameLabel}=${vmName}`
  const { resourceVersion } = await kube.list(pods, { namespace, labelSelector })
  const stop = new AbortController()
  const times: PodTimes = {}
  const follow = async () => {
    const options = { namespace, labelSelector, resourceVersion, timeoutSeconds: 120, signal: stop.signal }
    for await (const { object } of kube.watch(pods, options)) {
      if (!pods.accepts(object)) continue
      times.createdMs ??= Date.now()
      if (object.spec.nodeName !== undefined) times.boundMs ??= Date.now()
    }
  }
  const ended = follow().catch((error: unknown) => {
    if (!stop.signal.aborted) throw error
  })
  return {
    async stop(): Promise<PodTimes> {
      stop.abort()
      await ended
      return times
    },
  }
}

/**
 * The length of each wait in ms.
 * @param log of the launcher
 */
export function waitsOf(
  times: { readonly sentMs: number; readonly answeredMs: number; readonly runningMs: number } & PodTimes,
  podUid: string,
  log: string,
): Readonly<Record<Wait, number>> {
  const definedMs = loggedAt(log, 'defined the domain')
  const defineMs = Number(/"defineMs":(\d+)/.exec(log)?.[1])
  const ends = [
    times.answeredMs,
    times.createdMs ?? NaN,
    times.boundMs ?? NaN,
    startOf(podUid),
    loggedAt(log, 'ready'),
    definedMs - defineMs,
    definedMs,
    times.runningMs,
  ]
  // A watch can report the pod before the response to the request for the VM has been read.
  const lengths = ends.map((end, index) => Math.max(0, end - (index === 0 ? times.sentMs : (ends[index - 1] ?? NaN))))
  return Object.fromEntries(waits.map((wait, index) => [wait, lengths[index]])) as Record<Wait, number>
}

function loggedAt(log: string, message: string): number {
  const line = log.split('\n').find((one) => one.includes(`"msg":"${message}"`))
  return Date.parse(/"time":"([^"]+)"/.exec(line ?? '')?.[1] ?? '')
}

const msPerTick = 10

/** When the first process of the launcher was started. */
function startOf(podUid: string): number {
  const bootMs = Date.now() - Number(readFileSync('/proc/uptime', 'utf8').split(' ')[0]) * 1000
  const started = processesOfPod(podUid, (command) => command.includes('launcher/')).map((pid) => {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    return bootMs + Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19]) * msPerTick
  })
  return started.length === 0 ? NaN : Math.min(...started)
}
