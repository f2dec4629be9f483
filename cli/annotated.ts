import { Document, isCollection, isMap, isPair, isScalar, visit } from 'yaml'
import type { VirtualMachine } from '../api/machine.ts'
import { originOf } from '../completion/provenance.ts'
import type { Provenance } from '../presets/origins.ts'
import { joinPath } from '../presets/path.ts'
import { creditOf, creditText } from './provenance.ts'
import { yamlOptions } from './yaml.ts'

/** The VM as YAML; each line of its labels, annotations and spec that holds a value has a comment: who put it there. */
export function yamlWithProvenance(machine: VirtualMachine, { origins }: Provenance): string {
  const document = new Document(machine, yamlOptions)
  const comment = (path: string) => ` ${creditText(creditOf(originOf(origins, path)))}`
  visit(document, {
    Scalar(key, node, ancestors) {
      if (key === 'key') return
      const path = pathOf([...ancestors, node])
      if (isAnswered(path)) node.comment = comment(path)
    },
    Collection(_, node, ancestors) {
      const path = pathOf([...ancestors, node])
      if (node.items.length === 0 && isAnswered(path)) node.comment = comment(path)
    },
  })
  return document.toString(yamlOptions)
}

const isAnswered = (path: string): boolean => /^(?:spec|metadata\.(?:labels|annotations))\b./.test(path)

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
