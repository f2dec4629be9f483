import { Document, isCollection, isMap, isPair, isScalar, visit } from 'yaml'
import type { VirtualMachine } from '../api/machine.ts'
import { joinPath } from '../presets/path.ts'
import type { Provenance } from '../presets/origins.ts'
import { creditOf, creditText } from './provenance.ts'

/** The VM as YAML, each line of its spec with a comment: who put it there. */
export function yamlWithProvenance(machine: VirtualMachine, { origins }: Provenance): string {
  const document = new Document(machine)
  visit(document, {
    Scalar(key, node, ancestors) {
      if (key === 'key') return
      const path = pathOf([...ancestors, node])
      if (path.startsWith('spec')) node.comment = ` ${creditText(creditOf(origins.get(path) ?? { by: 'user' }))}`
    },
  })
  return document.toString({ lineWidth: 0 })
}

/** The path of the last of these nodes, each of which holds the next. */
function pathOf(nodes: readonly unknown[]): string {
  let path = ''
  for (const [index, node] of nodes.entries()) {
    const next = nodes[index + 1]
    if (isPair(node) && isScalar(node.key)) path = joinPath(path, String(node.key.value))
    else if (isCollection(node) && !isMap(node)) path = joinPath(path, node.items.indexOf(next))
  }
  return path
}
