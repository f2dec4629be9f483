/**
 * Which parts of a JSON value are parsed: of an object, those of the members that are named, and of all others those of
 * `*`. Of an array, these parts of each item, or of the first ones only; an item that is an array itself is parsed whole.
 */
export type Parts = boolean | ObjectParts | readonly [most: number, ofItem: Parts]

export interface ObjectParts {
  readonly [member: string]: Parts
  /**
   * An object of at most so many bytes of JSON is parsed whole. A larger one has, besides the parts, the member `#`: its
   * `Size`.
   */
  readonly [wholeUpTo]?: number
}

export const wholeUpTo: unique symbol = Symbol('wholeUpTo')

/** What an object has that was not parsed whole. */
export interface Size {
  /** Of its JSON. */
  readonly bytes: number
  /** The objects, lists and scalars in it, itself included. */
  readonly values: number
}

/** What is parsed of a large object, with its size. */
export interface Measured {
  readonly '#'?: Size
}

/** What clients record of their writes is as large as what they wrote. */
export const withoutManagedFields: ObjectParts = { '*': true, metadata: { '*': true, managedFields: false } }

/**
 * Parses only the parts of JSON that are read. Users can add megabytes to nearly every object, and JSON.parse takes ten
 * times as long for 60,000 labels as it takes to find their end. What is not parsed is not checked. A name that is
 * written with escapes counts as one that is not named.
 *
 * @returns a function that overwrites its argument, and throws SyntaxError for what is not JSON
 */
export function parserOf(parts: Parts): (json: Buffer) => unknown {
  const level = compile(parts)
  return (json) => JSON.parse(level === true ? json.toString('utf8') : cut(json, level))
}

type Level = boolean | Members
interface Members {
  readonly named: readonly { readonly name: Buffer; readonly level: Level }[]
  readonly others: Level
  /** Of an array. */
  readonly most: number
  readonly item?: Level
  readonly wholeUpTo?: number | undefined
}

const isFirst = (parts: object): parts is readonly [number, Parts] => Array.isArray(parts)

function compile(parts: Parts): Level {
  if (typeof parts === 'boolean') return parts
  if (isFirst(parts)) return { named: [], others: true, most: parts[0], item: compile(parts[1]) }
  const { '*': others = false, ...named } = parts
  return {
    named: Object.entries(named).map(([name, part]) => ({ name: Buffer.from(name), level: compile(part) })),
    others: compile(others),
    most: Infinity,
    wholeUpTo: parts[wholeUpTo],
  }
}

const [quote, backslash, comma, colon] = [0x22, 0x5c, 0x2c, 0x3a]
const [openBrace, closeBrace, openBracket, closeBracket] = [0x7b, 0x7d, 0x5b, 0x5d]
const space = 0x20

/** Moves what is read to the front, over what is not, and returns it with the sizes that are to be added. */
function cut(json: Buffer, parts: Level): string {
  let at = 0
  let to = 0
  /** The commas that have been passed, and the objects and lists that are not empty: the values that are in others. */
  let inner = 0
  const added: { readonly to: number; readonly text: string }[] = []
  const keep = (end: number) => {
    json.copyWithin(to, at, end)
    to += end - at
    at = end
  }
  /**
   * @param from where the value begins
   * @param most the end of a value of more bytes is not looked for: beyond them is enough
   */
  const valueEnd = (from: number, most = Infinity): number => {
    let depth = 0
    for (let next = from; next < json.length && next - from <= most; next++) {
      const byte = json[next]
      if (byte === quote) {
        next = stringEnd(json, next) - 1
        if (depth === 0) return next + 1
      } else if (byte === openBrace || byte === openBracket) {
        depth++
        if (!isClosing(json[next + 1])) inner++
      } else if (byte === closeBrace || byte === closeBracket) {
        if (depth === 0) return next
        depth--
        if (depth === 0) return next + 1
      } else if (byte === comma) {
        if (depth === 0) return next
        inner++
      }
    }
    return json.length
  }
  const value = (level: Level): void => {
    const open = json[at]
    if (typeof level === 'boolean') return keep(valueEnd(at))
    if (open === openBrace) return object(level)
    if (open === openBracket) return items(level)
    keep(valueEnd(at))
  }
  /** Calls `one` for each item or member, and keeps what is around them. Returns whether any was kept. */
  const each = (one: (isFirst: boolean) => boolean): boolean => {
    let hasAny = false
    keep(at + 1)
    if (!isClosing(json[at])) inner++
    for (;;) {
      at = spaceEnd(json, at)
      const byte = json[at]
      if (byte === undefined) return hasAny
      if (isClosing(byte)) {
        keep(at + 1)
        return hasAny
      }
      if (byte === comma) {
        inner++
        at++
      } else hasAny = one(!hasAny) || hasAny
    }
  }
  const items = (level: Members) => {
    let left = level.most
    each((isFirst) => {
      if (left-- <= 0) {
        at = valueEnd(at)
        return false
      }
      if (!isFirst) json[to++] = comma
      // Of arrays in arrays nothing is named. They can be nested more deeply than calls can be.
      if (level.item === undefined && json[at] === openBracket) keep(valueEnd(at))
      else value(level.item ?? level)
      return true
    })
  }
  const object = (level: Members): void => {
    const [from, innerBefore] = [at, inner]
    if (level.wholeUpTo === undefined) return void members(level)
    const end = valueEnd(from, level.wholeUpTo)
    if (end - from <= level.wholeUpTo) return keep(end)
    inner = innerBefore
    const hasAny = members(level)
    const size: Size = { bytes: at - from, values: 1 + inner - innerBefore }
    added.push({ to: to - 1, text: `${hasAny ? ',' : ''}"#":${JSON.stringify(size)}` })
  }
  const members = (level: Members): boolean =>
    each((isFirst) => {
      if (json[at] !== quote) throw new SyntaxError(`there is no name at ${at}`)
      const end = stringEnd(json, at)
      const found = levelOf(level, json, at + 1, end - 1)
      const valueAt = spaceEnd(json, end)
      if (json[valueAt] !== colon) throw new SyntaxError(`there is no colon at ${valueAt}`)
      if (found === false) {
        at = valueEnd(spaceEnd(json, valueAt + 1))
        return false
      }
      if (!isFirst) json[to++] = comma
      keep(end)
      json[to++] = colon
      at = spaceEnd(json, valueAt + 1)
      value(found)
      return true
    })
  at = spaceEnd(json, at)
  value(parts)
  keep(json.length)
  let text = ''
  let from = 0
  for (const one of added) {
    text += json.toString('utf8', from, one.to) + one.text
    from = one.to
  }
  return text + json.toString('utf8', from, to)
}

const isClosing = (byte: number | undefined): boolean => byte === closeBrace || byte === closeBracket

function levelOf({ named, others }: Members, json: Buffer, from: number, to: number): Level {
  for (const { name, level } of named) {
    if (name.length !== to - from) continue
    let same = 0
    while (same < name.length && name[same] === json[from + same]) same++
    if (same === name.length) return level
  }
  return others
}

function spaceEnd(json: Buffer, from: number): number {
  let at = from
  while ((json[at] ?? Infinity) <= space) at++
  return at
}

/** @param from where its first quotation mark is */
function stringEnd(json: Buffer, from: number): number {
  let at = from + 1
  while (at < json.length && json[at] !== quote) at += json[at] === backslash ? 2 : 1
  return Math.min(at + 1, json.length)
}
