import { collectionPath, request } from './api.ts'
import type { Manifest } from './text.ts'

/** An object as the API server stores it. */
export interface Stored extends Manifest {
  readonly metadata: Manifest['metadata'] & { readonly generation?: number; readonly resourceVersion?: string }
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
  // The status has changed the version since.
  const now = (await request('GET', path)) as Stored
  if (now.metadata.generation !== stored.metadata.generation) {
    throw new Error(`${name} was changed by someone else meanwhile; reload it, and edit it again`)
  }
  const body = merged(now, edited)
  await request('PUT', `${path}?dryRun=All&${manager}`, { body })
  return (await request('PUT', `${path}?${manager}`, { body })) as Stored
}

const manager = 'fieldManager=kubectl-vm-ui'

function merged(now: Stored, { metadata, spec }: Manifest): Stored {
  const applied = now.metadata.annotations?.[lastApplied]
  const annotations = { ...metadata.annotations, ...(applied === undefined ? {} : { [lastApplied]: applied }) }
  return { ...now, metadata: { ...now.metadata, labels: metadata.labels ?? {}, annotations }, spec }
}
