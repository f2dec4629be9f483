import { isRecord } from '../api/schema.ts'
import { covers, prune } from './cover.ts'
import type { Merge } from './merge.ts'
import { emptyMerge, mergeSources } from './merge.ts'
import type { Path } from '../api/path.ts'
import { rootPath } from '../api/path.ts'
import type { Source } from './source.ts'
import { isUser, originLabel } from './source.ts'
import type { ObjectStructure, Structure } from './structure.ts'
import { structureAt, valueAt } from './structure.ts'
import type { Node } from './tree.ts'
import { emit, emitAt, open } from './tree.ts'

/**
 * Sources in which each disk or file system comes with the volume that it names, or neither is included. Sources are
 * whole VMs: `{metadata, spec}`.
 */
export interface Paired {
  readonly sources: readonly Source[]
  readonly warnings: readonly string[]
}

const volumesPath = ['spec', 'volumes'] as const
const disksPath = ['spec', 'domain', 'devices', 'disks'] as const
const filesystemsPath = ['spec', 'domain', 'devices', 'filesystems'] as const
const userPaths = [disksPath, filesystemsPath]

const listAt = (value: unknown, path: readonly string[]): readonly unknown[] => {
  const list = valueAt(value, path)
  return Array.isArray(list) ? list : []
}

/** The disks and file systems. */
const usersIn = (value: unknown): readonly unknown[] => userPaths.flatMap((path) => listAt(value, path))

/** The name of the volume that a device uses. A volume in a libvirt storage pool does not count. */
function volumeOf(device: unknown): string | undefined {
  if (valueAt(device, ['type']) !== 'volume' || valueAt(device, ['source', 'pool']) !== undefined) return undefined
  const name = valueAt(device, ['source', 'volume'])
  return typeof name === 'string' ? name : undefined
}

const nameOf = (volume: unknown): string | undefined => {
  const name = valueAt(volume, ['name'])
  return typeof name === 'string' ? name : undefined
}

/** Whether any preset has volumes or devices that use volumes. Most have none. */
export const concernsVolumes = (sources: readonly Source[]): boolean =>
  sources.some(
    (source) =>
      !isUser(source) &&
      (listAt(source.value, volumesPath).length > 0 ||
        usersIn(source.value).some((device) => volumeOf(device) !== undefined)),
  )

/**
 * Before merging: drops each preset's volume that loses to another of the same name, with the devices that use it, and
 * each preset's device whose volume is missing.
 */
export function pairVolumes(structure: ObjectStructure, sources: readonly Source[], merge: Merge): Paired {
  const settled = settleVolumes(structure, sources, merge)
  const withoutLosers = sources.map((source) => {
    if (isUser(source)) return source
    const lost = new Set(
      listAt(source.value, volumesPath)
        .filter((volume) => !settled.holds(volume))
        .flatMap((volume) => nameOf(volume) ?? []),
    )
    noteSkips(source, lost, 'volume-lost', merge)
    return dropVolumes(source, lost)
  })
  const brought = new Set(withoutLosers.flatMap(({ value }) => listAt(value, volumesPath).map(nameOf)))
  const warnings: string[] = []
  const paired = withoutLosers.map((source) => {
    if (isUser(source)) return source
    const names = usersIn(source.value).map(volumeOf)
    const missing = new Set(names.flatMap((name) => (name === undefined || brought.has(name) ? [] : [name])))
    noteSkips(source, missing, 'volume-missing', merge)
    for (const name of missing) {
      warnings.push(
        `preset "${originLabel(source.origin)}": its device is left out because its volume "${name}" is missing`,
      )
    }
    return dropVolumes(source, missing)
  })
  return { sources: paired, warnings }
}

/** Merges the volumes alone. If they are in conflict, none counts as lost, because the conflict is reported anyway. */
function settleVolumes(structure: ObjectStructure, sources: readonly Source[], { steps, meanings }: Merge) {
  const list = structureAt(structure, volumesPath)
  const stated = sources.map((source) => ({ ...source, value: listAt(source.value, volumesPath) }))
  const merge = emptyMerge(steps, meanings)
  const node = list === undefined ? undefined : mergeSources(list, stated, rootPath, merge)
  const settled = node === undefined ? [] : listAt({ list: emit(node, rootPath).value }, ['list'])
  const item = list?.kind === 'list' ? list.item : undefined
  const isUnsettled = merge.conflicts.length + merge.longLists.length > 0
  return {
    holds: (volume: unknown): boolean =>
      item === undefined || isUnsettled || settled.some((one) => covers(item, volume, one, merge)),
  }
}

function noteSkips(
  source: Source,
  names: ReadonlySet<string | undefined>,
  reason: 'volume-lost' | 'volume-missing',
  merge: Merge,
): void {
  const note = (path: readonly string[], key: number) => {
    let at: Path = rootPath
    for (const step of [...path, key]) at = { parent: at, key: step }
    merge.skipped.push({ origin: source.origin, path: at, reason })
  }
  for (const [index, volume] of listAt(source.value, volumesPath).entries()) {
    if (names.has(nameOf(volume))) note(volumesPath, index)
  }
  for (const path of userPaths) {
    for (const [index, device] of listAt(source.value, path).entries()) {
      if (names.has(volumeOf(device))) note(path, index)
    }
  }
}

/**
 * Returns the source without some volumes, without the file systems that share them, and without the fields that make a
 * disk of them. Its other fields for a disk remain: like any item without a type, they change an existing disk but
 * create none.
 */
function dropVolumes(source: Source, names: ReadonlySet<string | undefined>): Source {
  const withoutVolumes = replaceList(source.value, volumesPath, (volume) => (names.has(nameOf(volume)) ? [] : [volume]))
  const withoutFilesystems = replaceList(withoutVolumes, filesystemsPath, (one) =>
    names.has(volumeOf(one)) ? [] : [one],
  )
  const undecided = (disk: unknown): readonly unknown[] => {
    if (!isRecord(disk) || !names.has(volumeOf(disk))) return [disk]
    return [prune(disk, (key) => key !== 'type' && key !== 'source')]
  }
  return { ...source, value: replaceList(withoutFilesystems, disksPath, undecided) }
}

/** Returns a copy in which each item of the list at a path is replaced. */
function replaceList(value: unknown, path: readonly string[], replace: (item: unknown) => readonly unknown[]): unknown {
  const [key, ...rest] = path
  if (key === undefined) return Array.isArray(value) ? value.flatMap(replace) : value
  if (!isRecord(value) || !Object.hasOwn(value, key)) return value
  return { ...value, [key]: replaceList(value[key], rest, replace) }
}

/**
 * After merging: removes the volumes that no device uses any more. A volume that the user or a preset states without a
 * device remains.
 * @param sources the sources before any value was dropped
 */
export function dropOrphans(root: Node, structure: ObjectStructure, sources: readonly Source[]): Node {
  const withoutDevice = new Set(
    sources.flatMap(({ value }) => {
      const used = new Set(usersIn(value).map(volumeOf))
      return volumeNames(value).filter((name) => !used.has(name))
    }),
  )
  const taken = new Set(userPaths.flatMap((path) => listAt(emitAt(root, path), [])).map(volumeOf))
  const left = listAt(emitAt(root, volumesPath), []).flatMap((volume) => nameOf(volume) ?? [])
  const orphans = new Set(left.filter((name) => !taken.has(name) && !withoutDevice.has(name)))
  return orphans.size === 0 ? root : filterVolumes(root, structure, rootPath, volumesPath, orphans)
}

function filterVolumes(
  given: Node,
  structure: Structure | undefined,
  path: Path,
  [key, ...rest]: readonly string[],
  orphans: ReadonlySet<string>,
): Node {
  const node = open(given, structure, path)
  if (node.kind === 'list') {
    const items = node.items.filter((item) => !orphans.has(nameOf(emit(item.node, item.path).value) ?? ''))
    return { ...node, items }
  }
  if (node.kind !== 'object' || key === undefined) return given
  const entry = node.entries.get(key)
  if (entry === undefined) return given
  const entries = new Map(node.entries)
  const left = filterVolumes(entry, node.structure.field(key), { parent: path, key }, rest, orphans)
  if (left.kind === 'list' && left.items.length === 0 && left.user?.length !== 0) entries.delete(key)
  else entries.set(key, left)
  return { ...node, entries }
}

export const volumeNames = (value: unknown): readonly string[] =>
  listAt(value, volumesPath).flatMap((volume) => nameOf(volume) ?? [])
