import { existsSync, mkdirSync, readdirSync, readFileSync, rmdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const root = '/sys/fs/cgroup'
/** The parent of all nodes' groups. It keeps a kubelet from finding and removing the pods of another kubelet. */
const parent = 'virtset'
/** Outside of `parent`: it competes with the whole cluster, not only with pods. */
const background = 'virtset-background'

/** The path of a node's group, for kubelet's `cgroupRoot`. */
export function cgroupOf(node: string): string {
  return `/${parent}/${node}`
}

/** All hierarchies: one per controller for cgroup v1, often with a v2 hierarchy without controllers, or only v2. */
function hierarchies(): string[] {
  if (existsSync(join(root, 'cgroup.controllers'))) return [root]
  return readdirSync(root, { withFileTypes: true })
    .filter((entry) => entry.isDirectory())
    .map((entry) => join(root, entry.name))
}

/**
 * While the CPUs are busy, all nodes together get as much as this many processes outside of them. As much as one is too
 * little: a few tests and their `kubectl` are enough to make the webhooks too late.
 */
const weight = 4

/** kubelet requires its root group in every hierarchy. */
export function ensureCgroup(node: string): void {
  for (const hierarchy of hierarchies()) {
    for (const path of [join(hierarchy, parent), join(hierarchy, parent, node)]) {
      mkdirSync(path, { recursive: true })
      // A new cpuset has no CPUs and no memory, and accepts no processes.
      for (const file of ['cpuset.cpus', 'cpuset.mems']) {
        const own = join(path, file)
        if (hierarchy !== root && existsSync(own) && readFileSync(own, 'utf8').trim() === '')
          writeFileSync(own, readFileSync(join(path, '..', file), 'utf8'))
      }
      if (hierarchy === root) delegateControllers(join(path, '..'))
    }
    for (const [file, ofOneProcess] of [
      ['cpu.shares', 1024],
      ['cpu.weight', 100],
    ] as const) {
      const own = join(hierarchy, parent, file)
      if (existsSync(own)) writeFileSync(own, String(ofOneProcess * weight))
    }
  }
}

/** In v2 a controller is available below a group only if the group delegates it. */
function delegateControllers(group: string): void {
  const controllers = readFileSync(join(group, 'cgroup.controllers'), 'utf8').trim().split(' ')
  writeFileSync(join(group, 'cgroup.subtree_control'), controllers.map((controller) => `+${controller}`).join(' '))
}

/**
 * The beginning of a command that runs the rest of its arguments in a group of its own: while the CPUs are busy, all its
 * processes together get as much as one other process.
 */
export function inBackground(): readonly string[] {
  const hierarchy = hierarchies().find((each) => each === root || existsSync(join(each, 'cpu.shares')))
  if (hierarchy === undefined) return []
  if (hierarchy === root) delegateControllers(root)
  const group = join(hierarchy, background)
  mkdirSync(group, { recursive: true })
  return ['/bin/sh', '-c', 'echo $$ > "$0" && exec "$@"', join(group, 'cgroup.procs')]
}

/** All processes in the cluster's groups. */
export function processesInCgroups(): number[] {
  const pids = hierarchies()
    .flatMap((hierarchy) => [join(hierarchy, parent), join(hierarchy, background)])
    .filter((path) => existsSync(path))
    .flatMap((path) => ['.', ...foldersBelow(path)].flatMap((folder) => processesOf(join(path, folder))))
  return [...new Set(pids)]
}

/** The processes of a group; none if it does not exist. */
export function processesOf(group: string): number[] {
  const lines = unlessRemoved(group, () => readFileSync(join(group, 'cgroup.procs'), 'utf8').split('\n'))
  return lines.filter((line) => line !== '').map(Number)
}

/** Removes all groups, the deepest first. They must be empty of processes. */
export function removeCgroups(): void {
  for (const path of hierarchies().flatMap((hierarchy) => [join(hierarchy, parent), join(hierarchy, background)])) {
    if (!existsSync(path)) continue
    for (const folder of foldersBelow(path).toSorted((a, b) => b.length - a.length)) rmdirSync(join(path, folder))
    rmdirSync(path)
  }
}

/** The groups below a group, by their relative paths; none if it does not exist. */
export function foldersBelow(group: string): string[] {
  const entries = unlessRemoved(group, () => readdirSync(group, { withFileTypes: true }))
  return entries
    .filter((entry) => entry.isDirectory())
    .flatMap(({ name }) => [name, ...foldersBelow(join(group, name)).map((folder) => join(name, folder))])
}

/** Returns an empty list if the group disappears, because containers can end at any time. */
function unlessRemoved<T>(group: string, read: () => T[]): T[] {
  try {
    return read()
  } catch (error) {
    if (existsSync(group)) throw error
    return []
  }
}
