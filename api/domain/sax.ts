import { SaxesParser, type SaxesTagNS } from 'saxes'

/** libvirt's RPC takes no string beyond 4 MiB, so no domain can be larger. */
const maxXmlBytes = 4 * 1024 * 1024

/**
 * The deepest element of libvirt's schema is at 14, if backing stores nest no further; a chain of 40 of them still
 * passes.
 */
const maxXmlDepth = 128

export interface XmlHandlers {
  /** `line` counts from 1. */
  readonly open: (tag: SaxesTagNS, line: number) => void
  readonly close: () => void
  /** Text and CDATA alike, in pieces. */
  readonly text: (text: string, line: number) => void
}

/** Why a document was not read to its end. */
export interface XmlFault {
  readonly line: number
  readonly message: string
}

class Refused extends Error {}

/**
 * Reads XML as a stream of events, keeping no tree. What has no business in a domain is refused before it costs
 * anything: DOCTYPE and with it entities, more than `maxXmlBytes`, nesting beyond `maxXmlDepth`, bytes that are not
 * UTF-8. `fragment`: several elements, or none, may be side by side.
 * @returns the fault that ended the reading, if any; handlers may have been called before it
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
    // XML 1.1 has characters that the XML that we write cannot hold.
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

/** saxes begins its messages with `LINE:COLUMN: `. */
const withoutPosition = (message: string): string => message.replace(/^\d+:\d+: /, '')
