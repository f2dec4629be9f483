import { SaxesParser } from 'saxes'

/**
 * XML for comparison: two documents are equal if their trees are deeply equal. The order of attributes, white space,
 * comments, and the order of elements with different names are ignored.
 */
export interface XmlTree {
  readonly attributes: { readonly [name: string]: string }
  readonly text: string
  /** By name, in order. */
  readonly children: { readonly [name: string]: readonly XmlTree[] }
}

export const xmlTree = (xml: string): { readonly [name: string]: readonly XmlTree[] } => {
  const root = open({})
  const stack = [root]
  const parser = new SaxesParser({ xmlns: true })
  parser.on('error', (error) => {
    throw error
  })
  parser.on('opentag', (tag) => {
    const attributes = Object.values(tag.attributes).filter(
      ({ prefix, name }) => prefix !== 'xmlns' && name !== 'xmlns',
    )
    const node = open(Object.fromEntries(attributes.map(({ uri, local, value }) => [`${uri}|${local}`, value])))
    const siblings = stack.at(-1)!.children
    ;(siblings[`${tag.uri}|${tag.local}`] ??= []).push(node)
    stack.push(node)
  })
  const text = (piece: string): void => {
    stack.at(-1)!.text += piece
  }
  parser.on('text', text)
  parser.on('cdata', text)
  parser.on('closetag', () => {
    const closed = stack.pop()!
    closed.text = closed.text.replaceAll(/[ \t\r\n]+/g, ' ').trim()
    stack.at(-1)!.text += ' '
  })
  parser.write(xml).close()
  return root.children
}

const open = (attributes: { [name: string]: string }) => ({
  attributes,
  text: '',
  children: {} as { [name: string]: XmlTree[] },
})
