import { collectionPath, request } from './api.ts'
import type { Manifest } from './text.ts'

/** An object as the API server stores it. */
export interface Stored extends Manifest {
  readonly metadata: Manifest['metadata'] & {
    readonly uid: string
    readonly generation?: number
    readonly resourceVersion?: string
  }
}

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/**
 * Creates an object, or replaces the stored one by what its user has edited: labels, annotations and spec. The API
 * server checks it first without storing it. @param stored as it was when it was edited; undefined for a new one
 * @returns it as it is stored now. @throws Refused, Error
 */
export async function store(plural: string, edited: Manifest, stored: Stored | undefined): Promise<Stored> {
  const { name = '', namespace } = edited.metadata
  const collection = collectionPath(plural, namespace)
  if (stored === undefined) {
    await request('POST', `${collection}?dryRun=All&${manager}`, { body: edited })
    return (await request('POST', `${collection}?${manager}`, { body: edited })) as Stored
  }
  const path = `${collection}/${encodeURIComponent(name)}`
  const now = (await request('GET', path)) as Stored
  if (isChanged(now, stored)) {
    throw new Error(`${name} was changed by someone else meanwhile; reload it, and edit it again`)
  }
  const body = merged(now, edited)
  await request('PUT', `${path}?dryRun=All&${manager}`, { body })
  return (await request('PUT', `${path}?${manager}`, { body })) as Stored
}

const manager = 'fieldManager=kubectl-vm-ui'

/** Whether a text is still that of the object it was made from, not of another that does not exist, or was not shown. */
export const isSame = ({ kind, metadata }: Manifest, stored: Stored): boolean =>
  kind === stored.kind && metadata.namespace === stored.metadata.namespace && metadata.name === stored.metadata.name

/**
 * Whether someone else has changed what its user edits, or replaced the object: new ones all have the generation 1. The
 * version does not tell: the status changes it as well.
 */
function isChanged({ metadata: now }: Stored, { metadata: before }: Stored): boolean {
  if (now.uid !== before.uid || now.generation !== before.generation) return true
  return isOther(now.labels, before.labels) || isOther(now.annotations, before.annotations)
}

type Texts = { readonly [key: string]: string }

function isOther(some: Texts = {}, others: Texts = {}): boolean {
  const keys = new Set([...Object.keys(some), ...Object.keys(others)])
  return [...keys].some((key) => some[key] !== others[key])
}

function merged(now: Stored, { metadata, spec }: Manifest): Stored {
  const applied = now.metadata.annotations?.[lastApplied]
  const annotations = { ...metadata.annotations, ...(applied === undefined ? {} : { [lastApplied]: applied }) }
  return { ...now, metadata: { ...now.metadata, labels: metadata.labels ?? {}, annotations }, spec }
}
