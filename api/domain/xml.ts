import type { SaxesTagNS } from 'saxes'
import { create } from 'xmlbuilder2'
import type { XMLBuilder } from 'xmlbuilder2/lib/interfaces.js'
import type { Cause } from '../cause.ts'
import { listCauses, noCauses, report } from '../causes.ts'
import { isRecord } from '../schema.ts'
import { elementOf, xmlName, type Element, type Field } from './description.ts'
import { domain as root, type Domain } from './domain.ts'
import { disk as diskElement } from './elements/disk.ts'
import { escapeForBuilder, foreignReader, writeForeign, type ForeignReader } from './foreign.ts'
import { readXml } from './sax.ts'
import { fromXml, toXml, type Scalar } from './scalar.ts'
import { orderedKeys, shapeOf, type Shape } from './shape.ts'

const qemuNamespace = 'http://libvirt.org/schemas/domain/qemu/1.0'

type JsonObject = { [key: string]: unknown }

/** An element that is currently open. */
interface Frame {
  /** `/domain/devices/disk[2]` */
  readonly path: string
  readonly shape: Shape
  readonly json: JsonObject
  readonly scalar?: Scalar
  readonly foreign?: ForeignReader
  /** Stores the value that was read. */
  readonly done: (value: unknown) => void
  text: string
  hasChildren: boolean
}

const nothing: Element = { description: '', fields: {} }

/**
 * Parses libvirt's Domain XML into the JSON of a VM's spec. Checks only names; `validateDomain` checks values. Drops
 * nothing but comments, processing instructions and white space between elements.
 * @returns a cause for each element, attribute and text that the description does not know, whose `field` is the path
 * in the XML. Malformed or hostile XML ends the reading with a cause of its own.
 */
export const readDomain = (xml: string | Uint8Array): { domain: Domain } | { causes: Cause[] } => {
  const found = noCauses()
  const addCause = (rule: string, field: string, message: string): void =>
    report(found, () => ({ rule, field, reason: 'FieldValueInvalid', message }))
  const stack: Frame[] = []
  let result: unknown
  /** Depth below an unknown element, or inside foreign XML. */
  let skipped = 0
  let foreignDepth = 0

  const open = (tag: SaxesTagNS, line: number): void => {
    const parent = stack.at(-1)
    if (skipped > 0) {
      skipped += 1
      return
    }
    if (parent?.foreign) {
      foreignDepth += 1
      parent.foreign.open(tag)
      return
    }
    const frame = parent
      ? enter(parent, tag, line, addCause)
      : enterRoot(tag, line, addCause, (value) => (result = value))
    if (!frame) {
      skipped = 1
      return
    }
    readAttributes(frame, tag, line, addCause)
    stack.push(frame)
  }
  const close = (): void => {
    if (skipped > 0) {
      skipped -= 1
      return
    }
    const frame = stack.at(-1)
    if (frame?.foreign && foreignDepth > 0) {
      foreignDepth -= 1
      frame.foreign.close()
      return
    }
    stack.pop()
    if (frame) leave(frame)
  }
  const text = (piece: string, line: number): void => {
    const frame = stack.at(-1)
    if (!frame || skipped > 0) return
    if (frame.foreign) {
      frame.foreign.text(piece)
      return
    }
    if (frame.scalar || frame.shape.content) {
      frame.text += piece
      return
    }
    if (piece.trim() !== '')
      addCause('xml-unknown-text', frame.path, `line ${line}: has no text, found ${brief(piece)}`)
  }

  const fault = readXml(xml, { open, close, text })
  if (fault) addCause('xml-malformed', stack.at(-1)?.path ?? '/', `line ${fault.line}: ${fault.message}`)
  const causes = listCauses(found, '/')
  if (causes.length > 0) return { causes }
  // The reader creates only keys of the description; validation checks the values.
  return { domain: result as Domain }
}

type AddCause = (rule: string, field: string, message: string) => void

/**
 * The name as in the description: unprefixed in no namespace, `qemu:` in QEMU's, regardless of the prefix in the
 * document.
 */
const knownName = (tag: { uri: string; local: string; name: string }): string =>
  tag.uri === '' ? tag.local : tag.uri === qemuNamespace ? `qemu:${tag.local}` : `{${tag.uri}}${tag.local}`

const enterRoot = (
  tag: SaxesTagNS,
  line: number,
  addCause: AddCause,
  done: (value: unknown) => void,
): Frame | undefined => {
  const name = knownName(tag)
  if (name === 'domain') return frameOf('/domain', root, done)
  addCause('xml-unknown-element', `/${name}`, `line ${line}: expected a domain`)
  return undefined
}

const frameOf = (path: string, element: Element, done: (value: unknown) => void, more: Partial<Frame> = {}): Frame => ({
  path,
  shape: shapeOf(element),
  json: {},
  done,
  text: '',
  hasChildren: false,
  ...more,
})

const enter = (parent: Frame, tag: SaxesTagNS, line: number, addCause: AddCause): Frame | undefined => {
  const name = knownName(tag)
  const path = `${parent.path}/${name}`
  const known = parent.shape.elements.get(name)
  parent.hasChildren = true
  if (!known) {
    addCause('xml-unknown-element', path, `line ${line}: ${xmlNameOfPath(parent.path)} has no element of this name`)
    return undefined
  }
  const { key, field } = known
  const { json } = parent
  if (field.at === 'children' || field.at === 'leaves') {
    const list = listIn(json, key)
    const index = list.length
    list.push(undefined)
    const done = (value: unknown): void => {
      list[index] = value
    }
    const itemPath = `${path}[${index + 1}]`
    return field.at === 'children'
      ? frameOf(itemPath, elementOf(field), done)
      : frameOf(itemPath, nothing, done, { scalar: field.scalar })
  }
  if (Object.hasOwn(json, key)) {
    addCause('xml-repeated-element', path, `line ${line}: must occur only once`)
    return undefined
  }
  // Reserves the position among the keys, which is the position in the XML.
  json[key] = undefined
  const done = (value: unknown): void => {
    json[key] = value
  }
  if (field.at === 'leaf') return frameOf(path, nothing, done, { scalar: field.scalar })
  if (field.at === 'foreign') return frameOf(path, nothing, done, { foreign: foreignReader() })
  return frameOf(path, elementOf(field), done)
}

const listIn = (json: JsonObject, key: string): unknown[] => {
  const list = json[key]
  if (Array.isArray(list)) return list
  const created: unknown[] = []
  json[key] = created
  return created
}

const xmlNameOfPath = (path: string): string => path.slice(path.lastIndexOf('/') + 1)

const readAttributes = (frame: Frame, tag: SaxesTagNS, line: number, addCause: AddCause): void => {
  for (const attribute of Object.values(tag.attributes)) {
    if (attribute.prefix === 'xmlns' || attribute.name === 'xmlns') continue
    const name = knownName(attribute)
    const known = frame.shape.attributes.get(name)
    if (known) frame.json[known.key] = fromXml(known.field.scalar, attribute.value)
    else
      addCause(
        'xml-unknown-attribute',
        `${frame.path}/@${name}`,
        `line ${line}: ${tag.name} has no attribute of this name`,
      )
  }
}

const leave = (frame: Frame): void => {
  const { shape, json, text } = frame
  if (frame.foreign) {
    frame.done(frame.foreign.end())
    return
  }
  if (frame.scalar) {
    frame.done(fromXml(frame.scalar, textOf(frame.scalar, text)))
    return
  }
  if (shape.content && text.trim() !== '') {
    const { key, field } = shape.content
    json[key] = fromXml(field.scalar, frame.hasChildren ? text.trim() : textOf(field.scalar, text))
  }
  for (const [key, single] of shape.singles) {
    const list = json[key]
    if (!Array.isArray(list) || list.length !== 1) continue
    json[single] = list[0]
    delete json[key]
  }
  frame.done(json)
}

/** White space is insignificant around anything but free text. */
const textOf = (scalar: Scalar, text: string): string => (scalar.kind === 'text' ? text : text.trim())

const brief = (text: string): string => JSON.stringify(text.trim().slice(0, 40))

/**
 * Writes the Domain XML of a valid domain: exactly its values, in their given spelling. Elements are in the order of
 * the description.
 */
export const writeDomain = (domain: Domain): string => {
  const attributes = Object.keys(domain).some((key) => key.startsWith('qemu')) ? { 'xmlns:qemu': qemuNamespace } : {}
  const node = create().ele('domain', attributes)
  write(node, root, domain)
  return `${node.end({ headless: true, prettyPrint: true })}\n`
}

/** Writes one disk of a valid domain, as `writeDomain` does. */
export const writeDisk = (disk: NonNullable<NonNullable<Domain['devices']>['disks']>[number]): string => {
  const node = create().ele('disk')
  write(node, diskElement, disk)
  return node.end({ headless: true })
}

const write = (node: XMLBuilder, element: Element, json: unknown): void => {
  if (!isRecord(json)) return
  const shape = shapeOf(element)
  for (const key of orderedKeys(shape, json)) {
    const known = shape.keys.get(key)
    if (!known) continue
    const { field, singleOf } = known
    writeField(node, xmlName(key, field), field, singleOf === undefined ? json[key] : [json[key]])
  }
}

const writeField = (node: XMLBuilder, name: string, field: Field, value: unknown): void => {
  switch (field.at) {
    case 'attribute':
      node.att(name, escapeForBuilder(scalarText(field.scalar, value)))
      return
    case 'content':
      node.txt(escapeForBuilder(scalarText(field.scalar, value)))
      return
    case 'leaf':
      node.ele(name).txt(escapeForBuilder(scalarText(field.scalar, value)))
      return
    case 'leaves':
      for (const item of listOf(value)) node.ele(name).txt(escapeForBuilder(scalarText(field.scalar, item)))
      return
    case 'child':
      write(node.ele(name), elementOf(field), value)
      return
    case 'children':
      for (const item of listOf(value)) write(node.ele(name), elementOf(field), item)
      return
    case 'foreign':
      writeForeign(node.ele(name), String(value))
  }
}

const scalarText = (scalar: Scalar, value: unknown): string => {
  if (typeof value === 'string' || typeof value === 'number' || typeof value === 'boolean') return toXml(scalar, value)
  throw new Error(`a ${scalar.kind} cannot be ${JSON.stringify(value)}: the domain was not validated`)
}

const listOf = (value: unknown): unknown[] => {
  if (Array.isArray(value)) return value
  throw new Error(`expected a list, found ${JSON.stringify(value)}: the domain was not validated`)
}
