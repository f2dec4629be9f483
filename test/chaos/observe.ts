import { readdirSync, readFileSync, statSync } from 'node:fs'

import { attempt } from '../../cluster/command.ts'
import { parseStartTime } from '../../cluster/process.ts'
import type { VirtualMachine, TestCluster } from '../cluster/cluster.ts'
import type { Snapshot, Qemu, SeenVm } from './checker.ts'

interface SeenObject extends VirtualMachine {
  readonly kind: string
  readonly metadata: VirtualMachine['metadata'] & { readonly labels?: Readonly<Record<string, string>> }
  readonly spec: VirtualMachine['spec'] & { readonly nodeName?: string }
}

/**
 * Takes a snapshot of all namespaces. Processes first: a QEMU whose VM is missing in the later list is checked again.
 */
export async function observe(cluster: TestCluster): Promise<Snapshot> {
  const atMs = performance.now()
  const qemus = findQemus()
  const list = await attempt([...cluster.command, 'get', 'vm,pods', '-A', '-o', 'json', '--request-timeout=4s'])
  if (list === undefined) return { atMs, qemus }
  const items: readonly SeenObject[] = JSON.parse(list).items
  const pods = items.flatMap(({ kind, metadata: { name, uid, labels }, spec: { nodeName } }) => {
    const vmUid = labels?.['virtset.io/vm-uid']
    if (kind !== 'Pod' || vmUid === undefined) return []
    return [{ name, uid, vmUid, ...(nodeName === undefined ? {} : { nodeName }) }]
  })
  const vms = items.filter(({ kind }) => kind === 'VirtualMachine').map(seenVm)
  return { atMs, qemus, objects: { vms, pods } }
}

function seenVm({ metadata: { name, uid, deletionTimestamp }, status = {} }: VirtualMachine): SeenVm {
  const { phase, podUID: podUid, reason, message, conditions = [] } = status
  return {
    name,
    uid,
    isDeleted: deletionTimestamp !== undefined,
    ...(phase === undefined ? {} : { phase }),
    ...(podUid === undefined ? {} : { podUid }),
    ...(reason && message ? { cause: `${reason}: ${message}` } : {}),
    excuses: conditions
      .filter((condition) => condition.status !== 'True' && condition.message !== '')
      .map((condition) => `${condition.reason}: ${condition.message}`),
  }
}

/** Every QEMU in a pod on this host. Those that libvirt starts to query capabilities have no `-uuid`. */
export function findQemus(): readonly Qemu[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      try {
        return qemuOf(Number(name))
      } catch {
        // It ended in the meantime.
        return []
      }
    })
}

/** As cluster/cgroup.ts and the kubelet name them. */
const podCgroup = /\/virtset\/([^/]+)\/.*\/pod([0-9a-f-]{36})/

function qemuOf(pid: number): readonly Qemu[] {
  const [program = '', ...rest] = readFileSync(`/proc/${pid}/cmdline`, 'utf8').split('\0')
  const uuid = rest[rest.indexOf('-uuid') + 1]
  if (!program.startsWith('/usr/bin/qemu-system-') || !rest.includes('-uuid') || uuid === undefined) return []
  const [, node, podUid] = podCgroup.exec(readFileSync(`/proc/${pid}/cgroup`, 'utf8')) ?? []
  const startTime = parseStartTime(readFileSync(`/proc/${pid}/stat`, 'utf8'))
  if (node === undefined || podUid === undefined || startTime === undefined) return []
  return [{ pid, startTime, podUid, node, uuid, disks: writtenBy(pid) }]
}

/** The access mode within the flags of open(2); 0 is O_RDONLY. */
const accessMode = 0o3

function writtenBy(pid: number): readonly string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    const stat = statSync(`/proc/${pid}/fd/${fd}`)
    if (!stat.isFile() && !stat.isBlockDevice()) return []
    const flags = Number.parseInt(
      /^flags:\s*([0-7]+)$/m.exec(readFileSync(`/proc/${pid}/fdinfo/${fd}`, 'utf8'))?.[1] ?? '0',
      8,
    )
    if ((flags & accessMode) === 0) return []
    return [stat.isBlockDevice() ? `device ${stat.rdev}` : `${stat.dev}:${stat.ino}`]
  })
}
