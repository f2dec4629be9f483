import type { Capabilities } from '../api/capabilities.ts'
import type { Cause } from '../api/cause.ts'
import type { Provided } from './nodes.ts'
import { countNodes, tolerated } from './outliers.ts'

export interface Judged {
  readonly causes: readonly Cause[]
  readonly warnings: readonly string[]
}

/**
 * What depends on the node, in words that name the nodes: which lack it, and which have it, so that the user can choose them. What only so
 * few nodes lack as others may overrule is no cause but a warning: the VM's pod is kept off them (`unfitNodes`).
 * @param judge the causes that there would be on a node that can do this
 */
export function tellNodes(
  causes: readonly Cause[],
  { groups, outliers }: Pick<Provided, 'groups' | 'outliers'>,
  judge: (capabilities: Capabilities) => readonly Cause[],
): Judged {
  if (groups.length === 0 || causes.every(({ lack }) => lack === undefined)) return { causes, warnings: [] }
  const limit = tolerated(countNodes(groups) + countNodes(outliers)) - countNodes(outliers)
  const judged = groups.map(({ nodes, capabilities }) => ({ nodes, causes: judge(capabilities) }))
  const avoided = new Set<string>()
  const warnings: string[] = []
  const told = causes.flatMap((cause) => {
    if (cause.lack === undefined) return [cause]
    const isSame = (other: Cause): boolean => other.rule === cause.rule && other.field === cause.field
    const lacking = judged.filter((one) => one.causes.some(isSame)).flatMap(({ nodes }) => nodes)
    const having = judged.filter((one) => !one.causes.some(isSame)).flatMap(({ nodes }) => nodes)
    // Each has something of the kind, and it is another one everywhere.
    if (lacking.length === 0) return [cause]
    const [chosen] = having
    const lack = `${nodesText(lacking)} ${lacking.length === 1 ? 'lacks' : 'lack'} ${cause.lack}`
    if (chosen === undefined) return [{ ...cause, message: `${cause.message} (${lack})` }]
    if (new Set([...avoided, ...lacking]).size <= limit) {
      for (const node of lacking) avoided.add(node)
      warnings.push(`${cause.field.replace(/^spec\.domain\./, '')}: ${lack}: the VM will not run there`)
      return []
    }
    return [
      {
        ...cause,
        message: `${lack}; ${nodesText(having)} ${having.length === 1 ? 'has' : 'have'} it`,
        suggestion: `nodeSelector: {kubernetes.io/hostname: ${chosen}}`,
      },
    ]
  })
  return { causes: told, warnings }
}

/** As many as somebody reads. */
const maxNodesTold = 3

function nodesText(nodes: readonly string[]): string {
  const told = nodes.slice(0, maxNodesTold).join(', ')
  const rest = nodes.length - maxNodesTold
  return `${nodes.length === 1 ? 'node' : 'nodes'} ${told}${rest > 0 ? ` and ${rest} more` : ''}`
}
