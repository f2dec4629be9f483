import { isDeepStrictEqual } from 'node:util'

/**
 * JSON Patch operations for each field of the status that differs. A field that a cache drops, or replaces by a digest,
 * is then in neither status, or the same in both, and stays as it is stored.
 */
export function statusPatch({ status: before }: { readonly status?: object }, after: object): object[] {
  if (before === undefined) return [{ op: 'add', path: '/status', value: after }]
  const old = new Map<string, unknown>(Object.entries(before))
  const changed = Object.entries(after).filter(([key, value]) => !isDeepStrictEqual(old.get(key), value))
  const removed = Object.keys(before).filter((key) => !(key in after))
  return [
    ...changed.map(([key, value]) => ({ op: 'add', path: `/status/${key}`, value })),
    // Another client may have removed it meanwhile: that is a conflict, and not an invalid patch.
    ...removed.flatMap((key) => [
      { op: 'add', path: `/status/${key}`, value: null },
      { op: 'remove', path: `/status/${key}` },
    ]),
  ]
}
