import { setTimeout as sleep } from 'node:timers/promises'

import { chance } from '../chance.ts'
import { deaf } from '../cluster/vms.ts'
import { createChecker, type Breach } from './checker.ts'
import { observe } from './observe.ts'
import { choose, claimedNames, type Operation, type World } from './operations.ts'

export interface Played {
  readonly breaches: readonly Breach[]
  /** How often each operation had a target. */
  readonly done: Readonly<Record<string, number>>
  readonly looks: number
  /** The number of different QEMU processes observed. */
  readonly qemus: number
}

export interface Play extends Omit<World, 'chance' | 'onSetBack'> {
  readonly seed: number
  readonly seconds: number
  readonly operations: readonly Operation[]
  /** The directory of the VMs' claims on this host. */
  readonly storage: string
  readonly report: (line: string) => void
}

/** After the last operation, the time for everything to reach its final state. */
const settleMs = 100_000
const lookEveryMs = 1000

/**
 * Performs random operations on a namespace of VMs, and checks all processes and objects every second until everything
 * is deleted. The seed determines the choices, but not when each takes effect.
 */
export async function play({ seed, seconds, operations, storage, report, ...base }: Play): Promise<Played> {
  const checker = createChecker()
  const world: World = { ...base, chance: chance(seed), onSetBack: () => checker.forgetPhases() }
  const { cluster } = world
  const breaches: Breach[] = []
  const qemus = new Set<string>()
  const done: Record<string, number> = {}
  let looks = 0
  let isOver = false

  const watch = async () => {
    while (!isOver) {
      const seen = await observe(cluster)
      looks++
      for (const { pid, startTime } of seen.qemus) qemus.add(`${pid} ${startTime}`)
      for (const breach of checker.look(seen)) {
        breaches.push(breach)
        report(`BROKEN ${breach.promise}: ${breach.subject}: ${breach.words}`)
      }
      await sleep(lookEveryMs)
    }
  }
  const act = async () => {
    const endMs = performance.now() + seconds * 1000
    for (let count = 1; performance.now() < endMs; count++) {
      const operation = choose(world.chance, operations)
      const on = await operation.run(world)
      if (on !== undefined) done[operation.name] = (done[operation.name] ?? 0) + 1
      report(`${count} ${operation.name} ${on ?? '(nothing there)'}`)
      await sleep(world.chance.random() * 2000)
    }
    report('waiting until everything is settled, then deleting it')
    await settled(world)
    await cluster.kubectl('delete', 'vmg,vmc,vm', '--all', '--timeout=180s')
    const pods = ['get', 'pods', '-l', 'virtset.io/vm-uid', '-o', 'name']
    await cluster.until('no pod of a VM is left', async () =>
      (await cluster.kubectl(...pods)) === '' ? true : undefined,
    )
  }

  await cluster.apply(...claims(cluster.namespace, storage), group, config)
  const watching = watch()
  try {
    await act()
  } finally {
    isOver = true
    await watching
  }
  return { breaches, done, looks, qemus: qemus.size }
}

/** Waits until no VM is changing, or the time is over: then the checker has reported what is stuck. */
async function settled({ cluster }: World): Promise<void> {
  const endMs = performance.now() + settleMs
  while (performance.now() < endMs) {
    const { objects } = await observe(cluster)
    if (
      objects?.vms.every(
        ({ phase = '', isDeleted }) => !isDeleted && ['Running', 'Succeeded', 'Failed'].includes(phase),
      )
    )
      return
    await sleep(lookEveryMs)
  }
}

const kind = { apiVersion: 'virtset.io/v1alpha1' } as const
const { spec } = deaf('template', { terminationGracePeriodSeconds: 1 }) as { spec: object }
const labels = { app: 'chaos' }
const group = {
  ...kind,
  kind: 'VirtualMachineGroup',
  metadata: { name: 'group' },
  spec: { replicas: 1, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
}
const config = { ...kind, kind: 'VirtualMachineConfig', metadata: { name: 'config' }, spec: { template: { spec } } }

function claims(namespace: string, storage: string): object[] {
  const shared = { accessModes: ['ReadWriteOnce'], storageClassName: '' }
  return claimedNames.flatMap((name) => [
    {
      apiVersion: 'v1',
      kind: 'PersistentVolume',
      metadata: { name: `${namespace}-${name}`, labels: { chaos: namespace } },
      spec: {
        ...shared,
        hostPath: { path: `${storage}/${name}` },
        capacity: { storage: '8Mi' },
        persistentVolumeReclaimPolicy: 'Retain',
        claimRef: { namespace, name },
      },
    },
    {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name },
      spec: { ...shared, volumeName: `${namespace}-${name}`, resources: { requests: { storage: '8Mi' } } },
    },
  ])
}
