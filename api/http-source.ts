import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { string, type SchemasOf } from './schema.ts'

/** A disk on a web server. */
export interface HttpSource {
  readonly url: string
  /** The digest of the file as the server sends it: `sha256:HEX` or `sha512:HEX`. */
  readonly checksum: string
}

export const httpSourceFields = {
  url: string('The URL of the file: http or https, without a user and a password.', { minLength: 1, maxLength: 2048 }),
  checksum: string('The checksum of the file: sha256: or sha512: and its digits in hex.', {
    minLength: 1,
    maxLength: 256,
  }),
} satisfies SchemasOf<HttpSource>

const checksumForm = /^(?:sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$/

/** Checks a source that matches its schema. */
export function checkHttpSource({ url, checksum }: HttpSource, field: string): Cause[] {
  const fault = faultOf(url)
  const causes = fault === undefined ? [] : [invalidValue('http-url', `${field}.url`, shownUrl(url), fault)]
  if (checksumForm.test(checksum)) return causes
  const message =
    'must be `sha256:` and 64 digits in lower-case hex, or `sha512:` and 128, as `sha256sum FILE` and `sha512sum FILE` print them'
  return [...causes, invalidValue('http-checksum', `${field}.checksum`, checksum, message)]
}

function faultOf(text: string): string | undefined {
  const url = URL.parse(text)
  const form = 'must be an absolute URL of a file, e.g. https://example.com/debian.qcow2'
  if (url === null || url.hostname === '') return form
  if (url.protocol !== 'http:' && url.protocol !== 'https:') return `${form}; http and https are supported`
  if (url.username === '' && url.password === '') return undefined
  return 'must have no user and no password: everyone who can read the VM could read them. Serve the file without them to the pods of the namespace, or build a container image of it, whose registry can require a pull secret'
}

/** For messages: without user, password, query and fragment, which can contain tokens. */
export function shownUrl(text: string): string {
  const url = URL.parse(text)
  return url === null || url.origin === 'null' ? 'a URL that cannot be parsed' : `${url.origin}${url.pathname}`
}
