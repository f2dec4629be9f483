import type { Cause, CauseReason, Origin } from './cause.ts'
import { shorten } from './shorten.ts'

/** A cause in the form of `metav1.StatusDetails`. */
export interface StatusCause {
  readonly reason: CauseReason
  readonly field: string
  readonly message: string
}

/** Far more than anyone reads, and far below the API server's limit for a response (3 MiB). */
const maxCauseCharacters = 256 * 1024

/** Longer than any path in a domain. A longer one ends in a key that a user chose. */
const maxFieldCharacters = 1024

/** The causes in the form that kubectl prints, one line each. The last one counts those that do not fit. */
export function statusCauses(given: readonly Cause[]): readonly StatusCause[] {
  const fitting: StatusCause[] = []
  let size = 0
  for (const cause of given) {
    const message = renderCause(cause)
    const field = shorten(cause.field, maxFieldCharacters)
    size += message.length + field.length
    if (size > maxCauseCharacters) {
      const rest = `and ${given.length - fitting.length} more`
      return [...fitting, { reason: 'FieldValueTooMany' as const, field: 'spec', message: rest }]
    }
    fitting.push({ reason: cause.reason, field, message })
  }
  return fitting
}

const words: { readonly [R in CauseReason]: string } = {
  FieldValueInvalid: 'Invalid value',
  FieldValueTypeInvalid: 'Invalid value',
  FieldValueNotSupported: 'Unsupported value',
  FieldValueDuplicate: 'Duplicate value',
  FieldValueNotFound: 'Not found',
  FieldValueRequired: 'Required value',
  FieldValueForbidden: 'Forbidden',
  FieldValueTooLong: 'Too long',
  FieldValueTooMany: 'Too many',
}

/** Reasons for which Kubernetes prints the value. */
const showsValue: readonly CauseReason[] = [
  'FieldValueInvalid',
  'FieldValueTypeInvalid',
  'FieldValueNotSupported',
  'FieldValueDuplicate',
  'FieldValueNotFound',
  'FieldValueTooMany',
]

/** In Kubernetes' form: `Invalid value: 16: must be at most 8 (preset default/small@1a2b3c); did you mean 1?`. */
export function renderCause({ reason, value, message, origin, suggestion }: Cause): string {
  const shown = showsValue.includes(reason) && value !== undefined ? `: ${shorten(JSON.stringify(value), 80)}` : ''
  const from = origin === undefined ? '' : renderOrigin(origin)
  return `${words[reason]}${shown}: ${message}${from}${suggestion === undefined ? '' : `; ${suggestion}`}`
}

function renderOrigin(origin: Origin): string {
  if (origin.by === 'user') return ''
  if (origin.by === 'default') return ` (libvirt's default, ${origin.rule})`
  const { namespace, name, revision } = origin
  return namespace === undefined
    ? ` (cluster preset ${name}@${revision})`
    : ` (preset ${namespace}/${name}@${revision})`
}

/**
 * Line ends as JSON has them. Names and keys come from manifests of others, and CI systems read commands from the lines
 * that a program prints.
 */
export const inOneLine = (text: string): string =>
  text.replaceAll('\n', String.raw`\n`).replaceAll('\r', String.raw`\r`)

/** What kubectl prints for a refusal, without the location of the manifest. */
export function refusalText(kind: string, name: string, causes: readonly Cause[]): string {
  const lines = statusCauses(causes).map(({ field, message }) => inOneLine(`${field}: ${message}`))
  const [only] = lines
  const head = inOneLine(`The ${kind} "${name}" is invalid: `)
  return lines.length === 1 ? `${head}${only}` : [head, ...lines.map((line) => `* ${line}`)].join('\n')
}
