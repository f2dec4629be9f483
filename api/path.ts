/** The place of a value. The index of an item may change while items are removed; texts are made at the end. */
export interface Path {
  readonly parent: Path | undefined
  key: string | number
}

export const rootPath: Path = Object.freeze({ parent: undefined, key: '' })

/**
 * As kubectl prints it: `spec.domain.devices.disks[1].target.dev`, and `metadata.labels[a/b]` for a map key that is not
 * a plain word.
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

/** The keys of a path's text; a list's index is a number. The reverse of `pathText`, but for map keys that hold `]`. */
export function pathKeys(text: string): (string | number)[] {
  return (text.match(/\[[^\]]*\]|[^.[\]]+/g) ?? []).map((part) => {
    if (!part.startsWith('[')) return part
    const key = part.slice(1, -1)
    return /^\d+$/.test(key) ? Number(key) : key
  })
}

/** `a.b[1]` → `a.b` → `a` → ''. */
export function parentPath(path: string): string {
  if (path.endsWith(']')) return path.slice(0, path.lastIndexOf('['))
  return path.slice(0, Math.max(0, path.lastIndexOf('.'), path.lastIndexOf(']') + 1))
}

/** Whether what a path names is another, or a part of it. */
export const isAtOrBelow = (path: string, above: string): boolean =>
  path === above || path.startsWith(`${above}.`) || path.startsWith(`${above}[`)

/**
 * Whether a path is one of these, or above or below one of them. Looked up, and not compared with each of them: a VM
 * has hundreds of faults, a refusal as many causes, and a provenance thousands of paths.
 */
export function relatedTo(paths: Iterable<string>): (path: string) => boolean {
  const whole = new Set(paths)
  if (whole.size === 0) return () => false
  const above = new Set([...whole].flatMap(ancestorsOf))
  return (path) => whole.has(path) || above.has(path) || ancestorsOf(path).some((one) => whole.has(one))
}

/** Longer than the path of any place in a domain. A longer path ends in a key that a user chose. */
const longestPath = 4096

/** `a.b[1].c` → `a.b[1]`, `a.b`, `a`. */
function ancestorsOf(path: string): readonly string[] {
  const ancestors: string[] = []
  for (const { index } of path.slice(0, longestPath).matchAll(/\[[^\]]*\]?|\.[^.[]*/g)) {
    if (index > 0) ancestors.push(path.slice(0, index))
  }
  return ancestors
}
