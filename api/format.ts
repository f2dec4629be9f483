/** The formats of OpenAPI that are checked, with what a value must be. */
const formats: Readonly<Record<string, { readonly isValid: (text: string) => boolean; readonly rule: string }>> = {
  byte: { isValid: isBase64, rule: 'must be base64' },
  'date-time': { isValid: isDateTime, rule: 'must be a date and time, e.g. 2030-01-01T00:00:00.000000Z' },
}

export const isCheckedFormat = (format: unknown): format is string =>
  typeof format === 'string' && Object.hasOwn(formats, format)

/** Why a text is not of a format; undefined if it is, and for formats that are not checked. */
export function formatFault(format: string | undefined, text: string): string | undefined {
  if (!isCheckedFormat(format)) return undefined
  const checked = formats[format]
  return checked === undefined || checked.isValid(text) ? undefined : checked.rule
}

/** As Go decodes it: with padding, and possibly with line breaks. */
function isBase64(text: string): boolean {
  const digits = text.replace(/[\r\n]/g, '')
  return digits.length % 4 === 0 && /^[A-Za-z0-9+/]*={0,2}$/.test(digits)
}

const dateTimeForm = /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?$/i

function isDateTime(text: string): boolean {
  return dateTimeForm.test(text) && !Number.isNaN(Date.parse(text))
}
