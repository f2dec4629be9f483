import { LRUCache } from 'lru-cache'
import type { SaxesTagNS } from 'saxes'
import type { XMLBuilder } from 'xmlbuilder2/lib/interfaces.js'
import { readXml, type XmlFault } from './sax.ts'

/**
 * XML that we do not know: applications keep their own below `<metadata>`. In JSON it is one string of XML, made
 * self-contained: namespaces declared outside are declared again on the element that uses them. Comments and the white
 * space between elements go.
 */
export interface ForeignReader {
  readonly open: (tag: SaxesTagNS) => void
  readonly close: () => void
  readonly text: (text: string) => void
  /** The XML read so far. */
  readonly end: () => string
}

interface OpenElement {
  readonly name: string
  /** Prefixes that were declared here. */
  readonly declared: readonly string[]
  text: string
  isOpen: boolean
}

export const foreignReader = (): ForeignReader => {
  const stack: OpenElement[] = [{ name: '', declared: [], text: '', isOpen: false }]
  /** By prefix: what was declared by the elements that are open, the innermost last. */
  const namespaces = new Map([['xml', [xmlNamespace]]])
  let out = ''
  const top = (): OpenElement => {
    const last = stack.at(-1)
    if (!last) throw new Error('foreign XML was closed more often than opened')
    return last
  }
  const flush = (parent: OpenElement): void => {
    if (parent.isOpen) out += '>'
    parent.isOpen = false
    out += escapeText(parent.text.trim())
    parent.text = ''
  }
  return {
    open: (tag) => {
      const parent = top()
      flush(parent)
      const attributes = Object.values(tag.attributes).filter(
        ({ prefix, name }) => prefix !== 'xmlns' && name !== 'xmlns',
      )
      const declared: string[] = []
      const used = new Map([[tag.prefix, tag.uri]])
      for (const { prefix, uri } of attributes) if (prefix !== '') used.set(prefix, uri)
      out += `<${tag.name}`
      for (const [prefix, uri] of used) {
        const outer = namespaces.get(prefix) ?? []
        if ((outer.at(-1) ?? '') === uri) continue
        outer.push(uri)
        namespaces.set(prefix, outer)
        declared.push(prefix)
        out += ` ${prefix === '' ? 'xmlns' : `xmlns:${prefix}`}="${escapeAttribute(uri)}"`
      }
      for (const { name, value } of attributes) out += ` ${name}="${escapeAttribute(value)}"`
      stack.push({ name: tag.name, declared, text: '', isOpen: true })
    },
    close: () => {
      const closed = top()
      stack.pop()
      for (const prefix of closed.declared) namespaces.get(prefix)?.pop()
      if (closed.isOpen && closed.text === '') {
        out += '/>'
        return
      }
      // Text beside elements is trimmed; text alone is unchanged.
      out += closed.isOpen ? `>${escapeText(closed.text)}` : escapeText(closed.text.trim())
      out += `</${closed.name}>`
    },
    text: (text) => {
      top().text += text
    },
    end: () => {
      flush(top())
      return out
    },
  }
}

/** What keeps a string from being foreign XML, if anything. */
export const foreignFault = (xml: string): XmlFault | undefined => readForeign(xml).fault

/**
 * The one spelling that we give to foreign XML.
 * @returns the text unchanged if it is not well-formed XML
 */
export const normalForeign = (xml: string): string => readForeign(xml).normal

interface ReadForeign {
  readonly fault: XmlFault | undefined
  readonly normal: string
}

/** One review asks for the same XML some ten times: each check of the shape does, and the rules do. */
const cache = new LRUCache<string, ReadForeign>({ max: 4 })

const readForeign = (xml: string): ReadForeign => {
  const cached = cache.get(xml)
  if (cached !== undefined) return cached
  const reader = foreignReader()
  const fault = readXml(xml, reader, { fragment: true })
  const read = { fault, normal: fault ? xml : reader.end() }
  cache.set(xml, read)
  return read
}

/** Writes foreign XML below a node. Throws if it is malformed, which `foreignFault` checks. */
export const writeForeign = (parent: XMLBuilder, xml: string): void => {
  const nodes = [parent]
  const top = (): XMLBuilder => nodes.at(-1) ?? parent
  const fault = readXml(
    xml,
    {
      open: (tag) => {
        const attributes = Object.values(tag.attributes).map(({ name, value }) => [name, escapeForBuilder(value)])
        nodes.push(top().ele(tag.name, Object.fromEntries(attributes)))
      },
      close: () => {
        nodes.pop()
      },
      text: (text) => {
        top().txt(escapeForBuilder(text))
      },
    },
    { fragment: true },
  )
  if (fault) throw new Error(`foreign XML ${fault.message}`)
}

/**
 * xmlbuilder2 takes what looks like a reference (`&lt;`, `&#10;`) for one and lets it through, and writes line ends in
 * attributes raw, where a reader turns them into spaces. Both would change the value, so we write these characters as
 * references ourselves.
 */
export const escapeForBuilder = (text: string): string =>
  needsReference.test(text)
    ? text.replaceAll('&', '&amp;').replaceAll('\t', '&#9;').replaceAll('\n', '&#10;').replaceAll('\r', '&#13;')
    : text

const needsReference = /[&\t\n\r]/

const xmlNamespace = 'http://www.w3.org/XML/1998/namespace'

const escapeText = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('\r', '&#13;')

const escapeAttribute = (text: string): string =>
  escapeText(text).replaceAll('"', '&quot;').replaceAll('\n', '&#10;').replaceAll('\t', '&#9;')
