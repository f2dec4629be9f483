import { Document, isCollection, isMap, isPair, isScalar, visit, type Pair } from 'yaml'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import { originOf } from '../completion/origins.ts'
import type { Subject } from '../presets/kind.ts'
import type { Provenance } from '../presets/origins.ts'
import { joinPath } from '../api/path.ts'
import { creditOf, creditText } from './provenance.ts'
import { yamlOptions } from '../api/yaml.ts'

/**
 * An object as YAML, each line with the origin of its value as a comment. A line that opens an object or a list names
 * all origins below it.
 */
export function yamlWithProvenance(object: Subject, { origins }: Pick<Provenance, 'origins'>): string {
  const document = new Document(object, yamlOptions)
  const creditAt = (path: string): string => (isOurs(path) ? 'virtset' : creditText(creditOf(originOf(origins, path))))
  visit(document, {
    Pair(_, pair, ancestors) {
      const path = pathOf([...ancestors, pair, pair.value])
      if (opensLines(pair) && isScalar(pair.key))
        pair.key.comment = ` ${summary(creditsBelow(pair.value, path, creditAt))}`
    },
    Scalar(key, node, ancestors) {
      if (key !== 'key') node.comment = ` ${creditAt(pathOf([...ancestors, node]))}`
    },
    Collection(_, node, ancestors) {
      if (node.items.length === 0) node.comment = ` ${creditAt(pathOf([...ancestors, node]))}`
    },
  })
  return document.toString(yamlOptions)
}

const isOurs = (path: string): boolean =>
  path === `metadata.annotations[${completedByAnnotation}]` || path.startsWith('metadata.finalizers')

const opensLines = ({ value }: Pair): boolean => isCollection(value) && value.items.length > 0

function creditsBelow(node: unknown, path: string, creditAt: (path: string) => string): ReadonlySet<string> {
  if (!isCollection(node) || node.items.length === 0) return new Set([creditAt(path)])
  const found = node.items.map((item: unknown, index) => {
    if (!isPair(item)) return creditsBelow(item, joinPath(path, index), creditAt)
    return creditsBelow(item.value, joinPath(path, isScalar(item.key) ? String(item.key.value) : ''), creditAt)
  })
  return new Set(found.flatMap((credits) => [...credits]))
}

/** Names defaults without their rules, which would be too long for the line. */
function summary(credits: ReadonlySet<string>): string {
  if (credits.size === 1) return [...credits].join()
  return [...new Set([...credits].map((credit) => (credit.startsWith('default ') ? 'defaults' : credit)))].join(', ')
}

/** The path of the last node; each node contains the next one. */
function pathOf(nodes: readonly unknown[]): string {
  let path = ''
  for (const [index, node] of nodes.entries()) {
    const next = nodes[index + 1]
    if (isPair(node) && isScalar(node.key)) path = joinPath(path, String(node.key.value))
    else if (isCollection(node) && !isMap(node)) path = joinPath(path, node.items.indexOf(next))
  }
  return path
}
