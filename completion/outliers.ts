import type { Capabilities, MachineType } from '../api/capabilities.ts'
import { compareVersions, familyOf } from './intersect.ts'

/** Nodes with equal capabilities. */
export interface NodeGroup {
  readonly nodes: readonly string[]
  readonly capabilities: Capabilities
}

/**
 * The maximum number of outliers among `nodes`: a tenth, but one of three to nineteen, and none of two, because it is
 * then unknown which one is broken.
 */
export const tolerated = (nodes: number): number => (nodes < 3 ? 0 : Math.max(1, Math.floor(nodes / 10)))

export const countNodes = (groups: readonly NodeGroup[]): number =>
  groups.reduce((sum, { nodes }) => sum + nodes.length, 0)

/**
 * Finds nodes without something of the launcher's image that nearly all others have. All nodes run the same image
 * except during a rollout; a node that alone has less is either the last to be updated, broken or reporting false
 * capabilities. What a node alone has in addition is in no common profile, provided that its profile is valid
 * (`isCapabilities`). Capabilities of the hardware (KVM, CPU features, huge pages) differ between healthy nodes and are
 * ignored. Returns at most `tolerated` nodes, those without the most first.
 */
export function outliersOf(groups: readonly NodeGroup[]): readonly NodeGroup[] {
  const total = countNodes(groups)
  const limit = tolerated(total)
  if (limit === 0 || groups.length < 2) return []
  const counts = new Map<string, number>()
  for (const { nodes, capabilities } of groups) {
    for (const item of imageItems(capabilities)) counts.set(item, (counts.get(item) ?? 0) + nodes.length)
  }
  const expected = [...counts].filter(([, count]) => count >= total - limit && count < total).map(([item]) => item)
  const incomplete = groups
    .map((group) => ({ group, count: countMissing(expected, imageItems(group.capabilities)) }))
    .filter(({ count }) => count > 0)
    .toSorted((a, b) => b.count - a.count || compareNames(a.group, b.group))
  const outliers: NodeGroup[] = []
  for (const { group } of incomplete) {
    if (countNodes(outliers) + group.nodes.length <= limit) outliers.push(group)
  }
  return outliers
}

const countMissing = (expected: readonly string[], items: ReadonlySet<string>): number =>
  expected.filter((item) => !items.has(item)).length

const compareNames = (a: NodeGroup, b: NodeGroup): number => ((a.nodes[0] ?? '') < (b.nodes[0] ?? '') ? -1 : 1)

const itemsOf = new WeakMap<Capabilities, ReadonlySet<string>>()

/** The capabilities that depend on the launcher's image. */
function imageItems(capabilities: Capabilities): ReadonlySet<string> {
  const known = itemsOf.get(capabilities)
  if (known) return known
  const { emulator, machines, devices, accelerators, firmware } = capabilities
  const items = new Set([
    `emulator ${emulator}`,
    ...machineItems(machines),
    // `kvm` is the one device that depends on the node.
    ...devices.filter((name) => name !== 'kvm').map((name) => `device ${name}`),
    ...(accelerators.qemu?.cpuModels ?? []).map(({ name }) => `cpu ${name}`),
    ...firmware.map((one) => `firmware ${JSON.stringify(one)}`),
  ])
  itemsOf.set(capabilities, items)
  return items
}

/** QEMU has two aliases and one default. Each is compared with all machine types; a false profile can have hundreds. */
const mostNames = 8

/** A node where `q35` is an alias of a newer version has all items of a node where it is an alias of an older one. */
function machineItems(machines: readonly MachineType[]): readonly string[] {
  const versions = machines.map((machine) => ({ machine, ...familyOf(machine) }))
  const names = versions.flatMap(({ machine: { alias, isDefault = false }, ...of }) => [
    ...(alias === undefined ? [] : [{ name: `alias ${alias}`, ...of }]),
    ...(isDefault ? [{ name: 'default', ...of }] : []),
  ])
  return [
    ...machines.map(({ alias: _alias, isDefault: _default, ...rest }) => `machine ${JSON.stringify(rest)}`),
    ...names
      .slice(0, mostNames)
      .flatMap(({ name, family, version }) =>
        versions
          .filter((other) => other.family === family && compareVersions(other.version, version) <= 0)
          .map((other) => `${name} is ${other.machine.name} or newer`),
      ),
  ]
}
