import { readXml } from '../../api/domain/sax.ts'

/** A parsed XML element with a few accessors. */
export interface Element {
  readonly name: string
  readonly attributes: { readonly [name: string]: string }
  readonly children: readonly Element[]
  readonly text: string
}

interface Open {
  readonly name: string
  readonly attributes: { readonly [name: string]: string }
  readonly children: Open[]
  text: string
}

/** The document node, the parent of the root element. @throws if the text is not XML, which libvirt's always is */
export function readElement(xml: string): Element {
  const root: Open = { name: '', attributes: {}, children: [], text: '' }
  const stack: Open[] = [root]
  const fault = readXml(xml, {
    open: (tag) => {
      const attributes = Object.fromEntries(Object.values(tag.attributes).map(({ name, value }) => [name, value]))
      const element: Open = { name: tag.name, attributes, children: [], text: '' }
      stack.at(-1)?.children.push(element)
      stack.push(element)
    },
    close: () => {
      stack.pop()
    },
    text: (text) => {
      const open = stack.at(-1)
      if (open) open.text += text.trim()
    },
  })
  if (fault) throw new Error(`line ${fault.line} of XML ${fault.message}`)
  return root
}

/** All elements below with this path of names. */
export function find(element: Element, ...names: readonly string[]): readonly Element[] {
  const [first, ...rest] = names
  if (first === undefined) return [element]
  return element.children.filter(({ name }) => name === first).flatMap((child) => find(child, ...rest))
}
