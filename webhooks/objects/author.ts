import { isRecord } from '../../api/schema.ts'
import { authorAnnotation, longestAuthorBytes } from '../../api/object-preset.ts'
import { isSpecUnchanged, stringsOf } from '../admission/authorize.ts'
import { unlessTooDeep } from '../admission/kind.ts'
import { patchBetween, writePatch } from '../admission/patch.ts'
import type { AdmissionRequest, AdmissionResult, User } from '../admission/request.ts'

/** The part of a user that an annotation records. */
export type Author = Pick<User, 'username' | 'groups'>

/**
 * Records who has last written the spec of a preset, so that a permission which its author loses later is noticed. What
 * the request has in the annotation does not count.
 */
export function recordAuthor(request: AdmissionRequest): AdmissionResult {
  const tooDeep = unlessTooDeep(request)
  if (tooDeep !== undefined) return tooDeep
  const { object, oldObject, user } = request
  // The validating webhook refuses it.
  if (!isRecord(object) || !isRecord(object['metadata'])) return { allowed: true }
  const author = isSpecUnchanged(request) ? annotationsOf(oldObject)[authorAnnotation] : authorText(user)
  const { metadata } = object
  const { [authorAnnotation]: claimed, ...others } = annotationsOf(object)
  if (claimed === author) return { allowed: true }
  const annotations = author === undefined ? others : { ...others, [authorAnnotation]: author }
  const after = { ...object, metadata: { ...metadata, annotations } }
  return { allowed: true, patch: writePatch(patchBetween(object, after)) }
}

function authorText({ username, groups }: User): string | undefined {
  const text = JSON.stringify({ username, groups })
  return Buffer.byteLength(text) > longestAuthorBytes ? undefined : text
}

/** Undefined for presets that were written without the webhooks. */
export function authorOf(preset: unknown): Author | undefined {
  const text = annotationsOf(preset)[authorAnnotation]
  if (text === undefined || text.length > longestAuthorBytes) return undefined
  try {
    const author: unknown = JSON.parse(text)
    const { username, groups } = isRecord(author) ? author : {}
    const isAuthor =
      typeof username === 'string' && Array.isArray(groups) && groups.every((one) => typeof one === 'string')
    return isAuthor ? { username, groups } : undefined
  } catch {
    return undefined
  }
}

function annotationsOf(object: unknown): { readonly [key: string]: string } {
  const metadata = isRecord(object) ? object['metadata'] : undefined
  return stringsOf(isRecord(metadata) ? metadata['annotations'] : undefined)
}
