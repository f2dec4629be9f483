import type { CauseReason } from '../../api/cause.ts'
import { isRecord } from '../../api/schema.ts'
import type { Finding } from './rule.ts'

const finding =
  (reason: CauseReason) =>
  (field: string, value: unknown, message: string, suggestion?: string): Finding => ({
    field,
    // An object does not fit on a line.
    ...(value === undefined || (typeof value === 'object' && value !== null) ? {} : { value }),
    reason,
    message,
    ...(suggestion === undefined ? {} : { suggestion }),
  })

export const invalid = finding('FieldValueInvalid')
export const unsupported = finding('FieldValueNotSupported')
export const duplicate = finding('FieldValueDuplicate')
export const forbidden = finding('FieldValueForbidden')
export const notFound = finding('FieldValueNotFound')
export const tooMany = finding('FieldValueTooMany')

export const required = (field: string, message: string, suggestion?: string): Finding => ({
  field,
  reason: 'FieldValueRequired',
  message,
  ...(suggestion === undefined ? {} : { suggestion }),
})

const memberOf = (holder: unknown, key: string): unknown => (isRecord(holder) ? holder[key] : undefined)

const valueAt = (holder: unknown, path: string): unknown => path.split('.').reduce(memberOf, holder)

/** A finding for each of the fields below `at` that is set; a field is named by its path, e.g. `driver.cache`. */
export function forbidEach(holder: object, at: string, fields: readonly string[], message: string): readonly Finding[] {
  const findings: Finding[] = []
  for (const field of fields) {
    const value = field.includes('.') ? valueAt(holder, field) : memberOf(holder, field)
    if (value !== undefined) findings.push(forbidden(`${at}.${field}`, value, message))
  }
  return findings
}

/** A finding that a node with `what` would not report. */
export const missingCapability = (what: string, of: Finding): Finding => ({ ...of, missingCapability: what })

/** The same for hardware, of which the VM needs only one node. */
export const missingHardware = (what: string, hardware: 'labeled' | 'unlabeled', of: Finding): Finding => ({
  ...missingCapability(what, of),
  hardware,
})
