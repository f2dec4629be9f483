/**
 * Checks virtset's guarantees only from processes and objects, without knowledge of its implementation. Gets one
 * snapshot of the cluster after the other and returns each breach once.
 */
export interface Checker {
  look(look: Snapshot): readonly Breach[]
  /** etcd is about to be restored: objects can go back to an earlier state. */
  forgetPhases(): void
}

/** A snapshot of processes and objects. */
export interface Snapshot {
  /** Monotonic. */
  readonly atMs: number
  readonly qemus: readonly Qemu[]
  /** Undefined while the API server does not respond: then objects are not checked. */
  readonly objects?: Objects
}

/** A QEMU process as /proc shows it. */
export interface Qemu {
  readonly pid: number
  /** In clock ticks since boot; a reused PID has another. */
  readonly startTime: string
  /** The UID of the pod that contains it, by its cgroup. */
  readonly podUid: string
  /** The node whose kubelet started the pod, by its cgroup. */
  readonly node: string
  /** The domain's UUID, from `-uuid`. */
  readonly uuid: string
  /** Files and block devices that are open for writing, as `device:inode`. */
  readonly disks: readonly string[]
}

export interface Objects {
  readonly vms: readonly SeenVm[]
  readonly pods: readonly SeenPod[]
}

export interface SeenVm {
  readonly name: string
  readonly uid: string
  readonly phase?: string
  readonly podUid?: string
  readonly isDeleted: boolean
  /** `Reason: message` of the phase; undefined unless it has both. */
  readonly cause?: string
  /** The same of conditions that are not True. */
  readonly excuses: readonly string[]
}

export interface SeenPod {
  readonly name: string
  readonly uid: string
  /** The value of the label `virtset.io/vm-uid`. */
  readonly vmUid: string
  readonly nodeName?: string
}

export interface Breach {
  readonly promise: keyof typeof promises
  /** A VM, a pod, a process or a disk. */
  readonly subject: string
  readonly words: string
}

export const promises = {
  'one-qemu': 'a VM, a pod and a disk have at most one QEMU',
  'no-return': 'a phase never goes backwards',
  reason: 'a VM without progress for 90 s has a condition with the reason, and a failed VM a reason and a message',
  'nothing-left': 'a VM that is gone has left no QEMU and no pod',
  'status-agrees': 'status and processes agree after 60 s',
} as const

/** While the API server does not respond, nobody can report anything, so only the time in which it does counts. */
const stuckMs = 90_000
const disagreementMs = 60_000
/** The lists of a snapshot are read one after the other, so an object can be missing in only one of them. */
const leftMs = 20_000

const order = ['Pending', 'Scheduling', 'Scheduled', 'Running', 'Succeeded', 'Failed']
const isFinal = (phase: string | undefined) => phase === 'Succeeded' || phase === 'Failed'
/** Succeeded and Failed are final: neither follows the other. */
const rankOf = (phase: string) => (isFinal(phase) ? order.length : order.indexOf(phase))

export function createChecker(): Checker {
  const reported = new Set<string>()
  /** The furthest phase of each VM, by uid. */
  const furthest = new Map<string, string>()
  let last: Snapshot | undefined
  /** The time between snapshots with objects. */
  let respondingMs = 0
  /** The `respondingMs` since which a condition has held, by its key. */
  const since = new Map<string, number>()
  /** The UIDs of VMs by those of their pods. */
  const vmOfPod = new Map<string, string>()

  return {
    forgetPhases: () => furthest.clear(),
    look(snapshot) {
      const { atMs, qemus, objects } = snapshot
      if (last?.objects !== undefined && objects !== undefined) respondingMs += atMs - last.atMs
      last = snapshot
      const current = new Set<string>()
      const lastsMs = (what: string): number => {
        current.add(what)
        const start = since.get(what) ?? respondingMs
        since.set(what, start)
        return respondingMs - start
      }
      const found = [...twice(qemus)]
      if (objects !== undefined) {
        for (const { uid, vmUid } of objects.pods) vmOfPod.set(uid, vmUid)
        found.push(
          ...objects.vms.flatMap((vm) => [
            ...wentBack(vm, furthest),
            ...stuck(vm, lastsMs),
            ...failedInSilence(vm),
            ...disagrees(vm, qemus, lastsMs),
          ]),
          ...left(objects, qemus, vmOfPod, lastsMs),
        )
        for (const what of since.keys()) if (!current.has(what)) since.delete(what)
      }
      return found.filter(({ promise, subject }) => {
        const key = `${promise} ${subject}`
        if (reported.has(key)) return false
        reported.add(key)
        return true
      })
    },
  }
}

function twice(qemus: readonly Qemu[]): Breach[] {
  const by = (what: string, keysOf: (qemu: Qemu) => readonly string[]): Breach[] => {
    const owners = new Map<string, Qemu[]>()
    for (const qemu of qemus) for (const key of keysOf(qemu)) owners.set(key, [...(owners.get(key) ?? []), qemu])
    return [...owners]
      .filter(([, those]) => those.length > 1)
      .map(([key, those]) => ({
        promise: 'one-qemu',
        subject: `${what} ${key}`,
        words: `processes ${those.map(({ pid, podUid }) => `${pid} (pod ${podUid})`).join(' and ')}`,
      }))
  }
  return [
    ...by('domain', ({ uuid }) => [uuid]),
    ...by('pod', ({ podUid }) => [podUid]),
    ...by('disk', ({ disks }) => [...new Set(disks)]),
  ]
}

/** Unknown is ignored: the previous phase can follow it. */
function wentBack({ name, uid, phase }: SeenVm, furthest: Map<string, string>): Breach[] {
  if (phase === undefined || phase === 'Unknown') return []
  const before = furthest.get(uid)
  if (before !== undefined && (rankOf(phase) < rankOf(before) || (isFinal(before) && phase !== before)))
    return [{ promise: 'no-return', subject: `vm ${name} ${uid}`, words: `${before}, then ${phase}` }]
  furthest.set(uid, phase)
  return []
}

function stuck(vm: SeenVm, lastsMs: (what: string) => number): Breach[] {
  const isSettled = !vm.isDeleted && (vm.phase === 'Running' || isFinal(vm.phase))
  if (isSettled) return []
  const subject = `vm ${vm.name} ${vm.uid}`
  const stage = `${vm.phase ?? 'no phase'}${vm.isDeleted ? ', being deleted' : ''}`
  const ms = lastsMs(`stuck ${subject} ${stage}`)
  if (ms <= stuckMs || vm.cause !== undefined || vm.excuses.length > 0) return []
  return [{ promise: 'reason', subject, words: `${stage} for ${seconds(ms)}, without a condition that has the reason` }]
}

function failedInSilence({ name, uid, phase, cause }: SeenVm): Breach[] {
  if (phase !== 'Failed' || cause !== undefined) return []
  return [{ promise: 'reason', subject: `failed vm ${name} ${uid}`, words: 'Failed without a reason and a message' }]
}

function disagrees(vm: SeenVm, qemus: readonly Qemu[], lastsMs: (what: string) => number): Breach[] {
  const { phase, podUid, name, uid } = vm
  if (podUid === undefined) return []
  const runs = qemus.some((qemu) => qemu.podUid === podUid)
  const words =
    phase === 'Running' && !runs && !vm.isDeleted
      ? 'Running without a QEMU'
      : runs && (isFinal(phase) || phase === 'Pending' || phase === 'Scheduling')
        ? `${phase} with a QEMU`
        : undefined
  if (words === undefined) return []
  const subject = `vm ${name} ${uid}`
  const ms = lastsMs(`disagrees ${subject} ${words}`)
  return ms > disagreementMs ? [{ promise: 'status-agrees', subject, words: `${words} for ${seconds(ms)}` }] : []
}

function left(
  { vms, pods }: Objects,
  qemus: readonly Qemu[],
  vmOfPod: ReadonlyMap<string, string>,
  lastsMs: (what: string) => number,
): Breach[] {
  const there = new Set(vms.map(({ uid }) => uid))
  const orphans = [
    ...pods.filter(({ vmUid }) => !there.has(vmUid)).map(({ name }) => `pod ${name}`),
    ...qemus
      .filter(({ podUid }) => !there.has(vmOfPod.get(podUid) ?? ''))
      .map(({ pid, startTime }) => `QEMU ${pid} started at ${startTime}`),
  ]
  return orphans.flatMap((subject) => {
    const ms = lastsMs(`left ${subject}`)
    return ms > leftMs
      ? [{ promise: 'nothing-left', subject, words: `still there ${seconds(ms)} after its VM` } as const]
      : []
  })
}

const seconds = (ms: number) => `${Math.round(ms / 1000)} s`
