import { LRUCache } from 'lru-cache'
import type { SaxesTagNS } from 'saxes'
import type { XMLBuilder } from 'xmlbuilder2/lib/interfaces.js'
import { maxForeignLength } from './limits.ts'
import { readXml, Refused, type XmlFault } from './sax.ts'

/**
 * Converts XML of unknown elements, which applications store below `<metadata>`, to one string. The string is
 * self-contained: namespaces declared outside are declared again on the element that uses them. Comments and white
 * space between elements are dropped.
 */
export interface ForeignReader {
  readonly open: (tag: SaxesTagNS) => void
  readonly close: () => void
  readonly text: (text: string) => void
  /** Returns the XML read so far. */
  readonly end: () => string
}

/**
 * Escapes can make a text six times as long. Only a namespace that is declared outside of the elements that use it makes
 * it longer: each of them repeats its URI.
 */
const maxNormalLength = 8 * maxForeignLength

interface OpenElement {
  readonly name: string
  /** Prefixes declared on this element. */
  readonly declared: readonly string[]
  text: string
  isOpen: boolean
}

export const foreignReader = (): ForeignReader => {
  const stack: OpenElement[] = [{ name: '', declared: [], text: '', isOpen: false }]
  /** @throws Refused if the result is too long */
  const write = (text: string): void => {
    out += text
    if (out.length > maxNormalLength) {
      throw new Refused(
        `is longer than ${maxNormalLength} characters if each element declares the namespaces that it uses: shorten their names`,
      )
    }
  }
  /** By prefix: the URIs declared by the open elements, innermost last. */
  const namespaces = new Map([['xml', [xmlNamespace]]])
  let out = ''
  const top = (): OpenElement => {
    const last = stack.at(-1)
    if (!last) throw new Error('foreign XML was closed more often than opened')
    return last
  }
  const flush = (parent: OpenElement): void => {
    if (parent.isOpen) write('>')
    parent.isOpen = false
    write(escapeText(parent.text.trim()))
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
      write(`<${tag.name}`)
      for (const [prefix, uri] of used) {
        const outer = namespaces.get(prefix) ?? []
        if ((outer.at(-1) ?? '') === uri) continue
        outer.push(uri)
        namespaces.set(prefix, outer)
        declared.push(prefix)
        write(` ${prefix === '' ? 'xmlns' : `xmlns:${prefix}`}="${escapeAttribute(uri)}"`)
      }
      for (const { name, value } of attributes) write(` ${name}="${escapeAttribute(value)}"`)
      stack.push({ name: tag.name, declared, text: '', isOpen: true })
    },
    close: () => {
      const closed = top()
      stack.pop()
      for (const prefix of closed.declared) namespaces.get(prefix)?.pop()
      if (closed.isOpen && closed.text === '') {
        write('/>')
        return
      }
      // Text between elements is trimmed; text alone is unchanged.
      write(closed.isOpen ? `>${escapeText(closed.text)}` : escapeText(closed.text.trim()))
      write(`</${closed.name}>`)
    },
    text: (text) => {
      top().text += text
    },
    end: () => out + escapeText(top().text.trim()),
  }
}

/** Why a string is not valid foreign XML, if it is not. */
export const foreignFault = (xml: string): XmlFault | undefined => readForeign(xml).fault

/**
 * The canonical spelling of foreign XML.
 * @returns the text unchanged if it is not well-formed XML
 */
export const normalForeign = (xml: string): string => readForeign(xml).normal

interface ReadForeign {
  readonly fault: XmlFault | undefined
  readonly normal: string
}

/** One review reads the same XML about ten times: in each check of the shape and in the rules. */
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

/** Writes foreign XML below a node. Throws if it is malformed; `foreignFault` checks that beforehand. */
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
 * xmlbuilder2 passes through what looks like a reference (`&lt;`, `&#10;`), and writes line ends in attributes
 * unescaped, which a reader turns into spaces. Both change the value, so these characters are escaped as references
 * here.
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
