import { xmlTree, type XmlTree } from '../xml-tree.ts'

/** A `path` in the expected document, and the text at it in both documents; undefined if it does not exist. */
export interface Difference {
  readonly path: string
  readonly expected: string | undefined
  readonly actual: string | undefined
}

/** The first difference between two documents, in the order of the expected one; `xmlTree` lists what is ignored. */
export const firstDifference = (expected: string, actual: string): Difference | undefined =>
  compareChildren(xmlTree(expected), xmlTree(actual), '')

type Children = XmlTree['children']

const compareChildren = (expected: Children, actual: Children, path: string): Difference | undefined => {
  for (const name of namesOf(expected, actual)) {
    const [wanted = [], found = []] = [expected[name], actual[name]]
    for (let index = 0; index < Math.max(wanted.length, found.length); index += 1) {
      const below = `${path}/${localName(name)}[${index + 1}]`
      const difference = compare(wanted[index], found[index], below)
      if (difference) return difference
    }
  }
  return undefined
}

const compare = (expected: XmlTree | undefined, actual: XmlTree | undefined, path: string): Difference | undefined => {
  if (!expected || !actual) return { path, expected: expected && shown(expected), actual: actual && shown(actual) }
  for (const name of namesOf(expected.attributes, actual.attributes)) {
    const [wanted, found] = [expected.attributes[name], actual.attributes[name]]
    if (wanted !== found) return { path: `${path}/@${localName(name)}`, expected: wanted, actual: found }
  }
  if (expected.text !== actual.text) return { path, expected: expected.text, actual: actual.text }
  return compareChildren(expected.children, actual.children, path)
}

const namesOf = (left: object, right: object): Set<string> => new Set([...Object.keys(left), ...Object.keys(right)])

/** Names are `URI|LOCAL`. */
const localName = (name: string): string => name.slice(name.lastIndexOf('|') + 1)

const shown = ({ attributes, children, text }: XmlTree): string =>
  [
    ...Object.entries(attributes).map(([name, value]) => `${localName(name)}=${value}`),
    text,
    ...Object.entries(children).flatMap(([name, items]) => items.map((item) => `${localName(name)}(${shown(item)})`)),
  ]
    .filter((part) => part !== '')
    .join(' ')
