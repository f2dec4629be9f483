/** Where a value stands. The index of an item may change while items go; texts are made when all is settled. */
export interface Path {
  readonly parent: Path | undefined
  key: string | number
}

export const rootPath: Path = Object.freeze({ parent: undefined, key: '' })

/** As kubectl prints it: `spec.domain.devices.disks[1].target.dev`, the key of a map that is no plain word `metadata.labels[a/b]`. */
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

/** Whether what a path names is another, or a part of it. */
export const isAtOrBelow = (path: string, above: string): boolean =>
  path === above || path.startsWith(`${above}.`) || path.startsWith(`${above}[`)
