import { parseAdmissionReview, type AdmissionRequest } from './request.ts'

/**
 * In characters: more than a user's 1,015 groups of 100 characters each. It is parsed outside any turn, and users can
 * invent names of megabytes, which are refused only later.
 */
const longestHead = 128 * 1024

/**
 * A review without its objects, which take nearly all of the time to be parsed: the API server writes before them what
 * identifies the request. Nobody can move this place: in a text, quotes are escaped. Undefined for any other order, and if
 * it is longer than any usual one.
 */
export function headOf(text: string): AdmissionRequest | undefined {
  const end = text.slice(0, longestHead).indexOf(',"object":')
  if (end === -1) return undefined
  try {
    const parsed = parseAdmissionReview(JSON.parse(`${text.slice(0, end)}}}`))
    return 'request' in parsed ? parsed.request : undefined
  } catch {
    return undefined
  }
}
