import { ProtocolError } from './errors.ts'

/**
 * hyper and uhyper are bigint, `X?` is X or null, `X<>` is a list, `opaque` is bytes, a struct is an object by field
 * name. A `typedValue` is one of a typed parameter: its type is a number of libvirt's, before the value.
 */
export type Value = number | bigint | string | null | Uint8Array | Value[] | { [field: string]: Value }

/** Field name → type, in the order of the wire. */
export type Fields = { readonly [field: string]: string }

/** Struct name → its fields. */
export type Structs = { readonly [name: string]: Fields }

/** libvirt's REMOTE_STRING_MAX. The daemon refuses a message with a longer string. */
export const maxStringBytes = 4 * 1024 * 1024

/** For a list without a limit of its own. */
const maxItems = 16_384

/**
 * Encodes `value`, an object with all `fields`, in XDR (RFC 4506) as libvirt uses it: char, uchar and ushort take four
 * bytes.
 * @throws ProtocolError if the value does not fit its type or exceeds a limit
 */
export function encode(fields: Fields, value: { readonly [field: string]: Value }, structs: Structs): Buffer {
  const writer = new Writer()
  writeFields(writer, fields, value, structs)
  return writer.finish()
}

/**
 * Decodes the value of `fields` from `bytes`.
 * @throws ProtocolError if bytes are missing or left over, or a length exceeds its limit or the bytes
 */
export function decode(fields: Fields, bytes: Uint8Array, structs: Structs): { [field: string]: Value } {
  const reader = new Reader(bytes)
  const value = readFields(reader, fields, structs)
  if (reader.left > 0) throw new ProtocolError(`${reader.left} unexpected bytes at the end`)
  return value
}

type Shape =
  | { kind: 'optional'; of: string }
  | { kind: 'list'; of: string; max: number }
  | { kind: 'bytes'; length: number }
  | { kind: 'longBytes'; max: number }
  | { kind: 'named'; name: string }

/** `domain?`, `domain<16384>`, `opaque[16]`, `opaque<4096>`, `opaque<>`, `domain`. */
function shapeOf(type: string): Shape {
  if (type.endsWith('?')) return { kind: 'optional', of: type.slice(0, -1) }
  const match = /^(\w+)([[<])(\d*)[\]>]$/.exec(type)
  if (match === null) return { kind: 'named', name: type }
  const [, of = '', bracket, size] = match
  if (of !== 'opaque') return { kind: 'list', of, max: size === '' ? maxItems : Number(size) }
  if (bracket === '[') return { kind: 'bytes', length: Number(size) }
  return { kind: 'longBytes', max: size === '' ? maxStringBytes : Number(size) }
}

function writeFields(
  writer: Writer,
  fields: Fields,
  value: { readonly [field: string]: Value },
  structs: Structs,
): void {
  for (const [field, type] of Object.entries(fields)) {
    const item = value[field]
    if (item === undefined) throw new ProtocolError(`${field} is missing`)
    writeValue(writer, type, item, structs, field)
  }
}

function writeValue(writer: Writer, type: string, value: Value, structs: Structs, path: string): void {
  const shape = shapeOf(type)
  switch (shape.kind) {
    case 'optional':
      writer.uint(value === null ? 0 : 1, path)
      if (value !== null) writeValue(writer, shape.of, value, structs, path)
      return
    case 'list':
      if (!Array.isArray(value) || value.length > shape.max) throw misfit(path, type)
      writer.uint(value.length, path)
      for (const item of value) writeValue(writer, shape.of, item, structs, `${path}[]`)
      return
    case 'bytes':
      if (!(value instanceof Uint8Array) || value.length !== shape.length) throw misfit(path, type)
      writer.padded(value)
      return
    case 'longBytes':
      if (!(value instanceof Uint8Array) || value.length > shape.max) throw misfit(path, type)
      writer.uint(value.length, path)
      writer.padded(value)
      return
    case 'named':
      writeNamed(writer, shape.name, value, structs, path)
  }
}

function writeNamed(writer: Writer, type: string, value: Value, structs: Structs, path: string): void {
  if (type === 'string') {
    if (typeof value !== 'string') throw misfit(path, type)
    const bytes = Buffer.from(value)
    if (bytes.length > maxStringBytes) throw new ProtocolError(`${path} is longer than ${maxStringBytes} bytes`)
    writer.uint(bytes.length, path)
    writer.padded(bytes)
    return
  }
  if (type === 'int' || type === 'uint') {
    if (typeof value !== 'number') throw misfit(path, type)
    if (type === 'int') writer.int(value, path)
    else writer.uint(value, path)
    return
  }
  if (type === 'hyper' || type === 'uhyper') {
    if (typeof value !== 'bigint') throw misfit(path, type)
    writer.hyper(value, type === 'hyper', path)
    return
  }
  if (type === 'typedValue') {
    const wireType = typeof value === 'number' ? 'uint' : typeof value === 'bigint' ? 'uhyper' : 'string'
    writer.uint(typedValues.indexOf(wireType), path)
    writeNamed(writer, wireType, value, structs, path)
    return
  }
  if (!isRecord(value)) throw misfit(path, type)
  writeFields(writer, structOf(structs, type), value, structs)
}

function readFields(reader: Reader, fields: Fields, structs: Structs): { [field: string]: Value } {
  const value: { [field: string]: Value } = {}
  for (const [field, type] of Object.entries(fields)) value[field] = readValue(reader, type, structs)
  return value
}

function readValue(reader: Reader, type: string, structs: Structs): Value {
  const shape = shapeOf(type)
  switch (shape.kind) {
    case 'optional':
      return readPresence(reader) ? readValue(reader, shape.of, structs) : null
    case 'list':
      return Array.from({ length: reader.count(shape.max) }, () => readValue(reader, shape.of, structs))
    case 'bytes':
      return reader.padded(shape.length)
    case 'longBytes':
      return reader.padded(reader.length(shape.max))
    case 'named':
      return readNamed(reader, shape.name, structs)
  }
}

function readPresence(reader: Reader): boolean {
  const count = reader.uint()
  if (count > 1) throw new ProtocolError(`an optional value occurs ${count} times`)
  return count === 1
}

function readNamed(reader: Reader, type: string, structs: Structs): Value {
  switch (type) {
    case 'string':
      return decodeText(reader.padded(reader.length(maxStringBytes)))
    case 'int':
      return reader.int()
    case 'uint':
      return reader.uint()
    case 'hyper':
      return reader.hyper(true)
    case 'uhyper':
      return reader.hyper(false)
    case 'typedValue':
      return readTypedValue(reader, structs)
    default:
      return readFields(reader, structOf(structs, type), structs)
  }
}

/** By libvirt's virTypedParameterType, from 1: a double, which no caller needs, is read as its bits. */
const typedValues = ['', 'int', 'uint', 'hyper', 'uhyper', 'uhyper', 'int', 'string'] as const

function readTypedValue(reader: Reader, structs: Structs): Value {
  const number = reader.uint()
  const type = typedValues[number] ?? ''
  if (type === '') throw new ProtocolError(`a typed parameter of the unknown type ${number}`)
  return readNamed(reader, type, structs)
}

const utf8 = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })

function decodeText(bytes: Uint8Array): string {
  try {
    return utf8.decode(bytes)
  } catch (error) {
    throw new ProtocolError('a string is not UTF-8', { cause: error })
  }
}

function structOf(structs: Structs, name: string): Fields {
  const fields = structs[name]
  if (fields === undefined) throw new Error(`no such type: ${name}`)
  return fields
}

function isRecord(value: Value): value is { [field: string]: Value } {
  return typeof value === 'object' && value !== null && !Array.isArray(value) && !(value instanceof Uint8Array)
}

function misfit(path: string, type: string): ProtocolError {
  return new ProtocolError(`${path} is not of type ${type}`)
}

class Writer {
  #buffer = Buffer.alloc(1024)
  #length = 0

  int(value: number, path: string): void {
    if (!Number.isInteger(value) || value < -0x8000_0000 || value > 0x7fff_ffff) throw misfit(path, 'int')
    this.#reserve(4)
    this.#length = this.#buffer.writeInt32BE(value, this.#length)
  }

  uint(value: number, path: string): void {
    if (!Number.isInteger(value) || value < 0 || value > 0xffff_ffff) throw misfit(path, 'uint')
    this.#reserve(4)
    this.#length = this.#buffer.writeUInt32BE(value, this.#length)
  }

  hyper(value: bigint, isSigned: boolean, path: string): void {
    const inRange = isSigned ? BigInt.asIntN(64, value) === value : BigInt.asUintN(64, value) === value
    if (!inRange) throw misfit(path, isSigned ? 'hyper' : 'uhyper')
    this.#reserve(8)
    this.#length = this.#buffer.writeBigUInt64BE(BigInt.asUintN(64, value), this.#length)
  }

  padded(bytes: Uint8Array): void {
    const length = padding(bytes.length) + bytes.length
    this.#reserve(length)
    this.#buffer.set(bytes, this.#length)
    this.#buffer.fill(0, this.#length + bytes.length, this.#length + length)
    this.#length += length
  }

  finish(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  #reserve(length: number): void {
    if (this.#length + length <= this.#buffer.length) return
    const grown = Buffer.alloc(Math.max(this.#buffer.length * 2, this.#length + length))
    grown.set(this.#buffer.subarray(0, this.#length))
    this.#buffer = grown
  }
}

class Reader {
  readonly #bytes: Buffer
  #offset = 0

  constructor(bytes: Uint8Array) {
    this.#bytes = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
  }

  get left(): number {
    return this.#bytes.length - this.#offset
  }

  int(): number {
    return this.#bytes.readInt32BE(this.#take(4))
  }

  uint(): number {
    return this.#bytes.readUInt32BE(this.#take(4))
  }

  hyper(isSigned: boolean): bigint {
    const offset = this.#take(8)
    return isSigned ? this.#bytes.readBigInt64BE(offset) : this.#bytes.readBigUInt64BE(offset)
  }

  /** The number of bytes that follow, checked before memory is allocated for them. */
  length(max: number): number {
    const length = this.uint()
    if (length > max) throw new ProtocolError(`a length of ${length} exceeds the limit of ${max}`)
    return length
  }

  /**
   * The number of items that follow. Each item takes at least four bytes, so a short message cannot announce a long
   * list.
   */
  count(max: number): number {
    const count = this.length(max)
    if (count * 4 > this.left) throw new ProtocolError(`${count} items in ${this.left} bytes`)
    return count
  }

  padded(length: number): Uint8Array {
    const offset = this.#take(length + padding(length))
    return this.#bytes.subarray(offset, offset + length)
  }

  #take(length: number): number {
    if (length > this.left) throw new ProtocolError(`${length} bytes expected, ${this.left} are left`)
    const offset = this.#offset
    this.#offset += length
    return offset
  }
}

/** The number of zero bytes that pad `length` to a multiple of four. */
function padding(length: number): number {
  return (4 - (length % 4)) % 4
}
