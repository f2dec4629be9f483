import type { VirtualMachineSnapshot } from '../api/snapshot.ts'
import { keyOf } from '../runtime/resource.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Change } from '../runtime/store.ts'

type Snapshot = Persisted<VirtualMachineSnapshot>

/**
 * The snapshots of each source that are not taken yet, in the order in which they were created. A tenant can have
 * thousands of one source, and each look at one of them asks for the oldest.
 */
interface SnapshotOrder {
  update(change: Change<VirtualMachineSnapshot>): void
  /**
   * The name of the oldest snapshot of the same source, if that is older than this one.
   * @param hasVm whether the source has a VM now; without one, snapshots that wait for it are not considered
   */
  earlierThan(snapshot: Snapshot, hasVm: boolean): string | undefined
}

interface Place {
  readonly list: string
  readonly order: string
  readonly name: string
}

const inOrder = (one: string, other: string): number => (one < other ? -1 : one > other ? 1 : 0)

/** @param compare of two places in the order */
export function createSnapshotOrder(compare: (one: string, other: string) => number = inOrder): SnapshotOrder {
  const places = new Map<string, Place>()
  const lists = new Map<string, Place[]>()

  /** Where in the list the order begins that is not below this one. */
  const indexOf = (list: readonly Place[], order: string): number => {
    let [low, high] = [0, list.length]
    while (low < high) {
      const middle = (low + high) >>> 1
      if (compare(list[middle]?.order ?? '', order) < 0) low = middle + 1
      else high = middle
    }
    return low
  }

  const remove = (key: string, { list: name, order }: Place): void => {
    const list = lists.get(name) ?? []
    list.splice(indexOf(list, order), 1)
    if (list.length === 0) lists.delete(name)
    places.delete(key)
  }

  const insert = (key: string, place: Place): void => {
    const list = lists.get(place.list) ?? []
    list.splice(indexOf(list, place.order), 0, place)
    lists.set(place.list, list)
    places.set(key, place)
  }

  return {
    update({ kind, object }) {
      const key = keyOf(object.metadata)
      const before = places.get(key)
      const place = kind === 'deleted' || isTaken(object) ? undefined : placeOf(object)
      if (before !== undefined && before.list === place?.list && before.order === place.order) return
      if (before !== undefined) remove(key, before)
      if (place !== undefined) insert(key, place)
    },
    earlierThan(snapshot, hasVm) {
      const kinds = hasVm ? [true, false] : [false]
      const order = orderOf(snapshot)
      const oldest = kinds.map((waits) => lists.get(listOf(snapshot, waits))?.[0])
      const [first] = oldest.filter((place) => place !== undefined).toSorted((a, b) => compare(a.order, b.order))
      return first !== undefined && compare(first.order, order) < 0 ? first.name : undefined
    },
  }
}

/** Nothing is done for it any more. Its deletion can take as long as another client's finalizer stays. */
export const isOver = ({ metadata, status }: VirtualMachineSnapshot): boolean =>
  status?.phase === 'Ready' || status?.phase === 'Failed' || metadata.deletionTimestamp !== undefined

/** Whether the storage has taken all claims, or nothing more is done for that. */
export const isTaken = (snapshot: VirtualMachineSnapshot): boolean =>
  isOver(snapshot) || snapshot.status?.creationTime !== undefined

/** The same for a VM and its config. */
export const sourceKeyOf = ({ metadata: { namespace = '' }, spec }: Snapshot): string =>
  `${namespace}/${spec.source.name}`

/** Whether it cannot begin without a VM, which the config of the same name may never have again. */
const waitsForVm = ({ spec, status }: Snapshot): boolean =>
  spec.source.kind !== 'VirtualMachineConfig' && status?.phase !== 'InProgress'

const listOf = (snapshot: Snapshot, waits: boolean): string => `${sourceKeyOf(snapshot)} ${waits}`

const placeOf = (snapshot: Snapshot): Place => ({
  list: listOf(snapshot, waitsForVm(snapshot)),
  order: orderOf(snapshot),
  name: snapshot.metadata.name,
})

/** Snapshots of one guest are taken one after the other, in the order in which they were created. */
const orderOf = ({ metadata: { creationTimestamp = '', name } }: Snapshot): string => `${creationTimestamp}/${name}`
