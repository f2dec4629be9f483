import { parseAdmissionReview, type AdmissionRequest } from './request.ts'

/**
 * A review without its objects, which take nearly all of the time to be parsed: the API server writes before them what
 * identifies the request. Nobody can move this place: in a text, quotes are escaped. Undefined for any other order.
 */
export function headOf(text: string): AdmissionRequest | undefined {
  const end = text.indexOf(',"object":')
  if (end === -1) return undefined
  try {
    const parsed = parseAdmissionReview(JSON.parse(`${text.slice(0, end)}}}`))
    return 'request' in parsed ? parsed.request : undefined
  } catch {
    return undefined
  }
}
