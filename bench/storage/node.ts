import { readdirSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { run } from '../../cluster/command.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { processesOfPod } from '../../test/cluster/cluster.ts'

const mebibyte = 1024 * 1024

/** What a VM takes on its node, in MiB. */
export interface Use {
  /** All that is written for its pod: volumes, logs, and the layers of its containers and images. Claims are not. */
  readonly diskMiB: number
  /** The proportional set sizes (PSS) of QEMU, most of which is the memory of the guest, and of the other processes. */
  readonly qemuMiB: number
  readonly othersMiB: number
  /** The page cache that the kernel counts as that of its pod. */
  readonly cacheMiB: number
}

const isQemu = (command: string) => command.startsWith('/usr/bin/qemu-system-')

export async function useOf(state: string, vm: Persisted<VirtualMachine>): Promise<Use> {
  const uid = vm.status?.podUID ?? ''
  const memory = (isWanted: (command: string) => boolean): number =>
    processesOfPod(uid, isWanted)
      .map((pid) => Number(/^Pss: +(\d+) kB$/m.exec(readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8'))?.[1]) / 1024)
      .reduce((sum, each) => sum + each, 0)
  return {
    diskMiB: await allocatedMiB(...writtenFor(state, vm)),
    qemuMiB: memory(isQemu),
    othersMiB: memory((command) => !isQemu(command)),
    cacheMiB: cacheOf(qemuOf(vm)),
  }
}

/** The disk in the image of a VM, on the node. */
export async function imageDiskOf(vm: Persisted<VirtualMachine>): Promise<string> {
  const image = overlaysOf(qemuOf(vm)).find(({ place }) => place.includes('/images/'))
  if (image === undefined) throw new Error(`${vm.metadata.name} has no image`)
  return (await run(['find', image.lower, '-type', 'f', '-name', '*.qcow2'])).trim()
}

/** How much of the disk in the image of a VM is in the page cache of the node. */
export async function cachedImageMiB(vm: Persisted<VirtualMachine>): Promise<number> {
  const file = await imageDiskOf(vm)
  return Number(await run(['fincore', '--bytes', '--noheadings', '--output', 'RES', file])) / mebibyte
}

/** The space that is allocated, without file systems that are mounted below. */
export async function allocatedMiB(...paths: readonly string[]): Promise<number> {
  const lines = await run(['du', '--summarize', '--one-file-system', '--block-size=1', ...paths])
  const bytes = lines
    .trim()
    .split('\n')
    .map((line) => Number.parseInt(line, 10))
  return bytes.reduce((sum, each) => sum + each, 0) / mebibyte
}

/** The directories on the node with what is written for a VM. */
function writtenFor(state: string, vm: Persisted<VirtualMachine>): string[] {
  const { namespace, name } = vm.metadata
  const { nodeName = '', podUID = '' } = vm.status ?? {}
  const layers = processesOfPod(podUID, () => true).flatMap((pid) => overlaysOf(pid).map(({ upper }) => dirname(upper)))
  const node = join(state, 'nodes', nodeName)
  const logs = join(node, 'log/pods')
  const ownLogs = readdirSync(logs).filter((entry) => entry.startsWith(`${namespace}_`) && entry.endsWith(podUID))
  if (ownLogs.length === 0) throw new Error(`the pod of ${name} has no logs in ${logs}`)
  return [join(node, 'kubelet/pods', podUID), ...new Set(layers), ...ownLogs.map((entry) => join(logs, entry))]
}

interface Overlay {
  readonly place: string
  readonly lower: string
  /** What is written. */
  readonly upper: string
}

/** The layers of images that are mounted in the pod of a process. `lower` is the highest of the read-only ones. */
function overlaysOf(pid: number): Overlay[] {
  const lines = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
  return lines.flatMap((line) => {
    const [, lower, upper] = / - overlay .*lowerdir=([^:,]+)[^,]*,upperdir=([^,]+)/.exec(line) ?? []
    return lower === undefined || upper === undefined ? [] : [{ place: line.split(' ')[4] ?? '', lower, upper }]
  })
}

export function qemuOf(vm: Persisted<VirtualMachine>): number {
  const [pid] = processesOfPod(vm.status?.podUID ?? 'no pod', isQemu)
  if (pid === undefined) throw new Error(`${vm.metadata.name} has no QEMU`)
  return pid
}

/** The page cache in MiB that is counted for the pod of a process. */
function cacheOf(pid: number): number {
  const groups = readFileSync(`/proc/${pid}/cgroup`, 'utf8')
  const own = /^\d+:memory:(.+)$/m.exec(groups)?.[1]
  const group = own === undefined ? `/sys/fs/cgroup${/^0::(.+)$/m.exec(groups)?.[1]}` : `/sys/fs/cgroup/memory${own}`
  const statistics = readFileSync(join(dirname(group), 'memory.stat'), 'utf8')
  return Number(/^(?:total_cache|file) (\d+)$/m.exec(statistics)?.[1]) / mebibyte
}
