/** The position of a value. An index may change while items are removed; the text is made at the end. */
export interface Path {
  readonly parent: Path | undefined
  key: string | number
}

export const rootPath: Path = Object.freeze({ parent: undefined, key: '' })

/**
 * In kubectl's form: `spec.domain.devices.disks[1].target.dev`, or `metadata.labels[a/b]` for a map key that is not a
 * plain word.
 */
export function pathText(path: Path): string {
  const keys: (string | number)[] = []
  for (let at: Path | undefined = path; at?.parent !== undefined; at = at.parent) keys.push(at.key)
  let text = ''
  for (const key of keys.toReversed()) text = joinPath(text, key)
  return text
}

export function joinPath(text: string, key: string | number): string {
  if (typeof key === 'number' || !/^\w+$/.test(key)) return `${text}[${key}]`
  return text === '' ? key : `${text}.${key}`
}

/**
 * Parses the text of a path into keys; the index of a list is a number. The inverse of `pathText`, except for map keys
 * that contain `]`.
 */
export function pathKeys(text: string): (string | number)[] {
  // Brackets before this are closed. The others would each be searched to the end of the text, which a user may have
  // written.
  const closed = text.lastIndexOf(']') + 1
  const parts = [
    ...(text.slice(0, closed).match(/\[[^\]]*\]|[^.[\]]+/g) ?? []),
    ...(text.slice(closed).match(/[^.[\]]+/g) ?? []),
  ]
  return parts.map((part) => {
    if (!part.startsWith('[')) return part
    const key = part.slice(1, -1)
    // A map can have the keys 7 and 007.
    return /^(?:0|[1-9]\d{0,14})$/.test(key) ? Number(key) : key
  })
}

/** `a.b[1]` → `a.b` → `a` → ''. */
export function parentPath(path: string): string {
  if (path.endsWith(']')) return path.slice(0, path.lastIndexOf('['))
  // From the end: a search for each character could read the whole path, for each of its ancestors.
  for (let end = path.length - 1; end >= 0; end--) {
    if (path[end] === '.') return path.slice(0, end)
    if (path[end] === ']') return path.slice(0, end + 1)
  }
  return ''
}

/** Whether `path` is `above` or below it. */
export const isAtOrBelow = (path: string, above: string): boolean =>
  path === above || path.startsWith(`${above}.`) || path.startsWith(`${above}[`)

/**
 * Returns a test for whether a path is one of `paths`, or above or below one. It uses a lookup, because a refusal with
 * hundreds of causes is tested against the thousands of paths of a provenance.
 */
export function relatedTo(paths: Iterable<string>): (path: string) => boolean {
  const whole = new Set(paths)
  if (whole.size === 0) return () => false
  const above = new Set([...whole].flatMap((path) => ancestorsOf(path)))
  const lengths = new Set([...whole].map(({ length }) => length))
  return (path) => whole.has(path) || above.has(path) || ancestorsOf(path, lengths).some((one) => whole.has(one))
}

/** The paths themselves and all above them. */
export function withPathsAbove(paths: Iterable<string>): ReadonlySet<string> {
  const all = new Set<string>()
  for (const path of paths) for (let at = path; at !== '' && !all.has(at); at = parentPath(at)) all.add(at)
  return all
}

/** Longer than any path in a domain. A longer path ends in a key that a user chose. */
export const longestPath = 4096

/**
 * `a.b[1].c` → `a`, `a.b`, `a.b[1]`.
 * @param lengths only those as long as one of these
 */
export function ancestorsOf(path: string, lengths?: ReadonlySet<number>): readonly string[] {
  const ancestors: string[] = []
  for (const { index } of path.slice(0, longestPath).matchAll(/\[[^\]]*\]?|\.[^.[]*/g)) {
    if (index > 0 && lengths?.has(index) !== false) ancestors.push(path.slice(0, index))
  }
  return ancestors
}
