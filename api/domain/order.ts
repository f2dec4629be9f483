import { isRecord } from '../schema.ts'

/**
 * Where libvirt puts devices into its lists when it reads a domain. Each list is given in libvirt's own spelling; one that libvirt
 * leaves in its order is not named here.
 */
export const orders: { readonly [path: string]: (items: readonly unknown[]) => unknown[] } = {
  'devices.disks': (items) => insertEach(items, beforeDisk),
  'devices.controllers': (items) => insertEach(items, beforeController),
}

/** Of two of one kind: whether the new one goes before the one that is there; undefined where they are of different kinds. */
type Before = (added: unknown, present: unknown) => boolean | undefined

/**
 * One by one, each behind the last of its kind, but before the first of its kind that must come after it. Kinds keep the places
 * that their first members had.
 */
const insertEach = (items: readonly unknown[], before: Before): unknown[] => {
  const list: unknown[] = []
  for (const item of items) {
    let place: number | undefined
    for (let index = list.length - 1; index >= 0; index -= 1) {
      const isBefore = before(item, list[index])
      if (isBefore === true) place = index
      else if (isBefore === false) place ??= index + 1
    }
    list.splice(place ?? list.length, 0, item)
  }
  return list
}

const beforeDisk: Before = (added, present) =>
  busOf(added) === busOf(present) ? diskIndex(targetOf(present)) > diskIndex(targetOf(added)) : undefined

const member = (value: unknown, key: string): unknown => (isRecord(value) ? value[key] : undefined)

const targetOf = (disk: unknown): string => {
  const dev = member(member(disk, 'target'), 'dev')
  return typeof dev === 'string' ? dev : ''
}

const prefixes: readonly (readonly [string, string])[] = [
  ['fd', 'fdc'],
  ['hd', 'ide'],
  ['sd', 'scsi'],
  ['vd', 'virtio'],
  ['xvd', 'xen'],
  ['ubd', 'uml'],
]

/** The bus that is written, or that libvirt reads from the target's name. */
const busOf = (disk: unknown): unknown => {
  const bus = member(member(disk, 'target'), 'bus')
  if (bus !== undefined) return bus
  if (member(disk, 'device') === 'floppy') return 'fdc'
  return prefixes.find(([prefix]) => targetOf(disk).startsWith(prefix))?.[1]
}

/** `vda` is 0, `vdz` 25, `vdaa` 26; a partition's number at the end does not count. -1 for anything else. */
export const diskIndex = (target: string): number => {
  const letters = /^(?:fd|hd|vd|sd|xvd|ubd)([a-z]{1,6})\d*$/.exec(target)?.[1]
  if (letters === undefined) return -1
  let index = 0
  for (const letter of letters) index = index * 26 + (letter.charCodeAt(0) - 96)
  return index - 1
}

const beforeController: Before = (added, present) => {
  if (member(added, 'type') !== member(present, 'type')) return undefined
  const [addedIndex, presentIndex] = [indexOf(added), indexOf(present)]
  if (addedIndex === undefined) return false
  if (presentIndex !== undefined && presentIndex > addedIndex) return true
  return presentIndex === addedIndex && !isCompanion(added) && isCompanion(present)
}

const indexOf = (controller: unknown): number | undefined => {
  const index = member(controller, 'index')
  return index === undefined ? undefined : Number(index)
}

/** A USB 1 controller that shares its ports with a USB 2 one. */
const isCompanion = (controller: unknown): boolean => member(controller, 'master') !== undefined
