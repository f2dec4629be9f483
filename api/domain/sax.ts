import { SaxesParser, type SaxesTagNS } from 'saxes'

/** libvirt's RPC accepts no string beyond 4 MiB, so no domain can be larger. */
const maxXmlBytes = 4 * 1024 * 1024

/**
 * The deepest element of libvirt's schema is at level 14 without nested backing stores. This still allows a chain of 40
 * of them.
 */
const maxXmlDepth = 128

export interface XmlHandlers {
  /** `line` counts from 1. */
  readonly open: (tag: SaxesTagNS, line: number) => void
  readonly close: () => void
  /** Called for text and CDATA, which may arrive in pieces. */
  readonly text: (text: string, line: number) => void
}

/** Why a document could not be read. */
export interface XmlFault {
  readonly line: number
  readonly message: string
}

/** Handlers throw it to end the reading: its message is the fault. */
export class Refused extends Error {}

/**
 * Reads XML as a stream of events, without building a tree. Refuses early what a domain never contains: a DOCTYPE (and
 * thus entities), more than `maxXmlBytes`, nesting beyond `maxXmlDepth`, bytes that are not UTF-8. With `fragment`, any
 * number of top-level elements is allowed.
 * @returns the fault that ended the reading, if any; handlers may have been called before
 */
export const readXml = (
  xml: string | Uint8Array,
  handlers: XmlHandlers,
  options: { fragment?: boolean } = {},
): XmlFault | undefined => {
  if (xml.length > maxXmlBytes)
    return { line: 1, message: `is ${xml.length} bytes long, at most ${maxXmlBytes} are read` }
  const decoded = decode(xml)
  if (decoded === undefined) return { line: 1, message: 'is not valid UTF-8' }
  return parse(decoded, handlers, options.fragment === true)
}

const decode = (xml: string | Uint8Array): string | undefined => {
  if (typeof xml === 'string') return xml.isWellFormed() ? xml : undefined
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(xml)
  } catch {
    return undefined
  }
}

const parse = (xml: string, handlers: XmlHandlers, fragment: boolean): XmlFault | undefined => {
  const parser = new SaxesParser({ xmlns: true, position: true, fragment })
  let depth = 0
  parser.on('error', (error) => {
    throw new Refused(withoutPosition(error.message))
  })
  parser.on('doctype', () => {
    throw new Refused('has a DOCTYPE; libvirt needs none, and entities are not read')
  })
  parser.on('xmldecl', ({ encoding, version }) => {
    // XML 1.1 allows characters that the XML 1.0 that we write cannot represent.
    if (version !== undefined && version !== '1.0') throw new Refused(`is XML ${version}; only XML 1.0 is read`)
    if (encoding !== undefined && !/^(utf-?8|us-ascii)$/i.test(encoding)) {
      throw new Refused(`is declared to be in ${encoding}; only UTF-8 is read`)
    }
  })
  parser.on('opentag', (tag) => {
    depth += 1
    if (depth > maxXmlDepth) throw new Refused(`nests elements more than ${maxXmlDepth} deep`)
    handlers.open(tag, parser.line)
  })
  parser.on('closetag', () => {
    depth -= 1
    handlers.close()
  })
  parser.on('text', (text) => handlers.text(text, parser.line))
  parser.on('cdata', (text) => handlers.text(text, parser.line))
  try {
    parser.write(xml).close()
    return undefined
  } catch (error) {
    if (!(error instanceof Refused)) throw error
    return { line: parser.line, message: error.message }
  }
}

/** saxes prefixes its messages with `LINE:COLUMN: `. */
const withoutPosition = (message: string): string => message.replace(/^\d+:\d+: /, '')
