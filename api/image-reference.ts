/** The grammar of container images: github.com/distribution/reference, `regexp.go`. */
const host = /^(?:\[[0-9A-Fa-f:]+\]|[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)(?::\d{1,5})?$/
const pathPart = /^[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*$/
const tagForm = /^\w[\w.-]{0,127}$/
const digestForm = /^sha(?:256:[0-9a-f]{64}|512:[0-9a-f]{128})$/
const longestName = 255

export const imageReferenceRule =
  'must be the name of a container image with an optional tag or digest, e.g. registry.example.com/disks/debian:13'

/** Whether container runtimes accept `text` as the name of an image: `[HOST[:PORT]/]PATH[:TAG][@DIGEST]`. */
export function isImageReference(text: string): boolean {
  const [tagged = '', digest, ...more] = text.split('@')
  if (more.length > 0 || (digest !== undefined && !digestForm.test(digest))) return false
  const colon = tagged.indexOf(':', tagged.lastIndexOf('/'))
  if (colon !== -1 && !tagForm.test(tagged.slice(colon + 1))) return false
  const name = colon === -1 ? tagged : tagged.slice(0, colon)
  const [first = '', ...rest] = name.split('/')
  const path = rest.length > 0 && isHost(first) ? rest : [first, ...rest]
  return name.length <= longestName && path.every((part) => pathPart.test(part))
}

/** Whether the first part of a name is a host, as runtimes decide it. */
const isHost = (part: string): boolean => host.test(part) && (/[.:A-Z]/.test(part) || part === 'localhost')
