import type { Capabilities } from '../api/capabilities.ts'
import type { Cause } from '../api/cause.ts'
import { sizeOf } from '../api/steps.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { nameSome } from '../presets/abridge.ts'
import { checkedGroups } from './checked-groups.ts'
import type { Provided } from './nodes.ts'
import { countNodes, tolerated } from './outliers.ts'

/** The result of the rules. */
export interface Checked {
  readonly causes: readonly Cause[]
  readonly warnings: readonly string[]
}

/**
 * Names nodes in causes that depend on them: those without the capability, and those with it so that the user can
 * select them. If only a few nodes do not have it, the cause becomes a warning instead: the VM's pod avoids them
 * (`unfitNodes`). Hardware differs between healthy nodes, so a cause about it remains only if no node has all that the
 * VM requires.
 * @param spec its size limits on how many kinds of nodes it is checked
 * @param check returns the causes on a node with these capabilities, of the rules that read them
 */
export function nameNodes(
  causes: readonly Cause[],
  { groups, outliers }: Pick<Provided, 'groups' | 'outliers'>,
  spec: VirtualMachineSpec,
  check: (capabilities: Capabilities) => readonly Cause[],
): Checked {
  if (groups.length === 0 || causes.every(({ missingCapability }) => missingCapability === undefined))
    return { causes, warnings: [] }
  const limit = tolerated(countNodes(groups) + countNodes(outliers)) - countNodes(outliers)
  const { checked, unchecked: others } = checkedGroups(groups, sizeOf(spec))
  const unchecked = others.flatMap(({ nodes }) => nodes)
  const results = checked.map(({ nodes, capabilities }) => ({
    nodes,
    causes: Map.groupBy(check(capabilities), keyOf),
  }))
  const ignored = uncheckedText(unchecked.length)
  const avoided = new Set<string>()
  const warnings: string[] = []
  const named = causes.flatMap((cause) => {
    if (cause.missingCapability === undefined || cause.hardware !== undefined) return [cause]
    const key = keyOf(cause)
    const without = results.filter((one) => one.causes.has(key)).flatMap(({ nodes }) => nodes)
    const having = results.filter((one) => !one.causes.has(key)).flatMap(({ nodes }) => nodes)
    // Each node alone satisfies the rule, but with a different capability.
    if (without.length === 0) return [cause]
    const [chosen] = having
    const missing = `${nodesText(without)} ${without.length === 1 ? 'does' : 'do'} not have ${cause.missingCapability}`
    if (chosen === undefined) return [{ ...cause, message: `${cause.message} (${missing}${ignored})` }]
    // The VM avoids nodes that are not checked as well.
    const lacking = [...without, ...unchecked]
    if (new Set([...avoided, ...lacking]).size <= limit) {
      for (const node of lacking) avoided.add(node)
      warnings.push(`${cause.field.replace(/^spec\.domain\./, '')}: ${missing}${ignored}: the VM will not run there`)
      return []
    }
    return [
      {
        ...cause,
        message: `${missing}; ${nodesText(having)} ${having.length === 1 ? 'has' : 'have'} it${ignored}`,
        suggestion: `nodeSelector: {kubernetes.io/hostname: ${chosen}}`,
      },
    ]
  })
  const fits = results.some(
    ({ nodes, causes: of }) =>
      nodes.some((node) => !avoided.has(node)) &&
      of.values().every((same) => same.every(({ hardware }) => hardware === undefined)),
  )
  return {
    causes: named.flatMap((cause) => {
      if (cause.hardware === undefined) return [cause]
      return fits ? [] : [{ ...cause, message: `${missingByNode(cause, results)}${ignored}` }]
    }),
    warnings,
  }
}

interface NodeResult {
  readonly nodes: readonly string[]
  readonly causes: ReadonlyMap<string, readonly Cause[]>
}

const keyOf = ({ rule, field }: Cause): string => `${rule} ${field}`

/** What each node does not have: their hardware differs. */
function missingByNode(cause: Cause, results: readonly NodeResult[]): string {
  const key = keyOf(cause)
  const missing = results.flatMap(({ nodes, causes }) => {
    const own = causes.get(key)?.[0]
    return own?.missingCapability === undefined ? [] : [{ nodes, what: own.missingCapability }]
  })
  const byWhat = Map.groupBy(missing, ({ what }) => what)
  return [...byWhat]
    .map(([what, of]) => {
      const nodes = of.flatMap((one) => one.nodes)
      return `${nodesText(nodes)} ${nodes.length === 1 ? 'does' : 'do'} not have ${what}`
    })
    .join('; ')
}

const uncheckedText = (count: number): string =>
  count === 0 ? '' : `; ${count} more ${count === 1 ? 'was' : 'were'} not checked, because the VM is large`

const nodesText = (nodes: readonly string[]): string => `${nodes.length === 1 ? 'node' : 'nodes'} ${nameSome(nodes)}`
