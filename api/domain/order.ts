import { isRecord } from '../schema.ts'

/**
 * Where libvirt puts devices into its lists when it reads a domain. Each list is given in libvirt's own spelling; one
 * that libvirt leaves in its order is not named here.
 */
export const orders: { readonly [path: string]: (items: readonly unknown[]) => unknown[] } = {
  'devices.disks': (items) => inGroups(items, busOf, (disks) => sortedBy(disks, diskPlace)),
  'devices.controllers': (items) => inGroups(items, (item) => member(item, 'type'), sortedControllers),
}

/** Items of a kind are together, at the position of the first of them; each kind is sorted by itself. */
const inGroups = (
  items: readonly unknown[],
  kindOf: (item: unknown) => unknown,
  sort: (group: readonly unknown[]) => unknown[],
): unknown[] => [...Map.groupBy(items, kindOf).values()].flatMap(sort)

/** Items of the same place stay in their order. */
const sortedBy = (items: readonly unknown[], placeOf: (item: unknown) => number): unknown[] =>
  items
    .map((item) => ({ item, place: placeOf(item) }))
    .toSorted((a, b) => a.place - b.place)
    .map(({ item }) => item)

const diskPlace = (disk: unknown): number => diskIndex(targetOf(disk))

const member = (value: unknown, key: string): unknown => (isRecord(value) ? value[key] : undefined)

const targetOf = (disk: unknown): string => {
  const dev = member(member(disk, 'target'), 'dev')
  return typeof dev === 'string' ? dev : ''
}

/**
 * The one that is written: libvirt reads the others' from their targets' names later, and until then they are of one
 * kind.
 */
const busOf = (disk: unknown): unknown => member(member(disk, 'target'), 'bus')

/** `vda` is 0, `vdz` 25, `vdaa` 26; a partition's number at the end does not count. -1 for anything else. */
export const diskIndex = (target: string): number => {
  const letters = /^(?:fd|hd|vd|sd|xvd|ubd)([a-z]{1,6})\d*$/.exec(target)?.[1]
  if (letters === undefined) return -1
  let index = 0
  for (const letter of letters) index = index * 26 + (letter.charCodeAt(0) - 96)
  return index - 1
}

/**
 * By their index; of those with the same, the USB 1 controllers of a USB 2 one come last. One without an index yet goes
 * behind all that are there before it, and stays.
 */
const sortedControllers = (controllers: readonly unknown[]): unknown[] => {
  if (controllers.every((one) => indexOf(one) !== undefined)) return sortedBy(controllers, placeOf)
  const sorted: { readonly controller: unknown; readonly place: number | undefined }[] = []
  let last = -1
  for (const controller of controllers) {
    const place = indexOf(controller) === undefined ? undefined : placeOf(controller)
    const isBehind = place === undefined || place >= last
    if (isBehind) sorted.push({ controller, place })
    else sorted.splice(firstBehind(sorted, place), 0, { controller, place })
    last = Math.max(last, place ?? -1)
  }
  return sorted.map(({ controller }) => controller)
}

const firstBehind = (sorted: readonly { readonly place: number | undefined }[], place: number): number =>
  sorted.findIndex((one) => (one.place ?? -1) > place)

const placeOf = (controller: unknown): number => (indexOf(controller) ?? 0) * 2 + (isCompanion(controller) ? 1 : 0)

const indexOf = (controller: unknown): number | undefined => {
  const index = member(controller, 'index')
  return index === undefined ? undefined : Number(index)
}

/** A USB 1 controller that shares its ports with a USB 2 one. */
const isCompanion = (controller: unknown): boolean => member(controller, 'master') !== undefined
