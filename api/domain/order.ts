import { isRecord } from '../schema.ts'

/**
 * The positions that libvirt gives to devices when it reads a domain. Each function gets a list in libvirt's spelling.
 * libvirt does not reorder the lists that are missing here.
 */
export const orders: { readonly [path: string]: (items: readonly unknown[]) => unknown[] } = {
  'devices.disks': (items) => inGroups(items, busOf, (disks) => sortedBy(disks, diskPlace)),
  'devices.controllers': (items) => inGroups(items, (item) => member(item, 'type'), sortedControllers),
}

/** Groups the items by kind, at the position of the first item of each kind, and sorts each group. */
const inGroups = (
  items: readonly unknown[],
  kindOf: (item: unknown) => unknown,
  sort: (group: readonly unknown[]) => unknown[],
): unknown[] => [...Map.groupBy(items, kindOf).values()].flatMap(sort)

/** A stable sort. */
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

/** The stated bus. libvirt derives absent ones from the targets' names only later; until then they form one group. */
const busOf = (disk: unknown): unknown => member(member(disk, 'target'), 'bus')

/** `vda` is 0, `vdz` 25, `vdaa` 26; a trailing partition number is ignored. -1 for anything else. */
export const diskIndex = (target: string): number => {
  const letters = /^(?:fd|hd|vd|sd|xvd|ubd)([a-z]{1,6})\d*$/.exec(target)?.[1]
  if (letters === undefined) return -1
  let index = 0
  for (const letter of letters) index = index * 26 + (letter.charCodeAt(0) - 96)
  return index - 1
}

/**
 * Sorts by index; of controllers with the same index, the USB 1 companions come last. A controller without an index is
 * placed after all previous ones and is not moved.
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

/** Whether this is a USB 1 controller that shares the ports of a USB 2 controller. */
const isCompanion = (controller: unknown): boolean => member(controller, 'master') !== undefined
