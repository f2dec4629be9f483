import type { Cause } from '../api/cause.ts'
import { nearest } from '../api/nearest.ts'
import { targetText, type Target } from '../api/object-preset.ts'
import { groupOf } from '../api/preset-target.ts'
import { isRecord } from '../api/schema.ts'
import { kindsIn, resourceOf } from '../presets/object-kind.ts'
import type { ServedKind } from '../presets/target-check.ts'
import type { KubeClient } from '../runtime/kube.ts'

/** The kinds that the API server serves, read from its OpenAPI v3 documents. */
export interface ServedKinds {
  /** Undefined until it has been read. */
  get(target: Target): ServedKind | undefined
  /**
   * Reads those of some kinds whose documents have changed. Documents have megabytes; only the structure of these kinds
   * stays in memory. A document that cannot be read, such as that of an API whose server is down, affects only its
   * kinds.
   * @throws what the client throws when it reads the index
   */
  refresh(targets: readonly Target[]): Promise<Refreshed>
}

export interface Refreshed {
  /** Whether any kind has changed. */
  readonly isChanged: boolean
  /** Why documents could not be read. */
  readonly errors: readonly unknown[]
}

interface Read {
  /** Contains a hash of the document; empty if there is no document. */
  readonly url: string
  readonly served: ServedKind
}

export function createServedKinds(kube: Pick<KubeClient, 'request'>): ServedKinds {
  const read = new Map<string, Read>()
  return {
    get: (target) => read.get(targetText(target))?.served,
    async refresh(targets) {
      if (targets.length === 0) return { isChanged: false, errors: [] }
      const index = await kube.request('GET', '/openapi/v3')
      const changed = targets.filter((target) => read.get(targetText(target))?.url !== urlOf(index, target))
      const byUrl = Map.groupBy(changed, (target) => urlOf(index, target))
      const errors: unknown[] = []
      for (const [url, some] of byUrl) {
        try {
          const document = url === '' ? undefined : await kube.request('GET', url)
          for (const target of some) read.set(targetText(target), { url, served: servedIn(document, target) })
        } catch (error) {
          errors.push(error)
        }
      }
      return { isChanged: changed.some((target) => read.get(targetText(target))?.url === urlOf(index, target)), errors }
    },
  }
}

/** The index lists the documents by group and version: `{paths: {"apis/apps/v1": {serverRelativeURL: "…?hash=…"}}}`. */
function urlOf(index: unknown, { apiVersion }: Target): string {
  const paths = isRecord(index) && isRecord(index['paths']) ? index['paths'] : {}
  const path = groupOf(apiVersion) === '' ? `api/${apiVersion}` : `apis/${apiVersion}`
  const entry = paths[path]
  const url = isRecord(entry) ? entry['serverRelativeURL'] : undefined
  return typeof url === 'string' ? url : ''
}

function servedIn(document: unknown, target: Target): ServedKind {
  const name = targetText(target)
  if (document === undefined)
    return notServed('apiVersion', target.apiVersion, `the API server does not serve ${target.apiVersion}`)
  const kinds = kindsIn(document) ?? new Map<string, never>()
  const found = kinds.get(name)
  if (found === undefined) {
    const near = nearest(name, [...kinds.keys()])
    return notServed('kind', target.kind, `the API server does not serve ${name}`, near)
  }
  const resource = resourceOf(document, target)
  if (resource === undefined) return notServed('kind', target.kind, `objects of kind ${name} cannot be created`)
  const read = found()
  if ('kind' in read) return { kind: read.kind, resource }
  const causes = read.causes.map(({ field, message }) => unusable(target, `${field === '' ? 'it' : field} ${message}`))
  return { causes }
}

const notServed = (field: string, value: string, message: string, near?: string): ServedKind => ({
  causes: [
    {
      rule: 'preset-target',
      field: `spec.${field}`,
      value,
      reason: 'FieldValueNotFound',
      message,
      ...(near === undefined ? {} : { suggestion: `did you mean ${near}?` }),
    },
  ],
})

const unusable = (target: Target, fault: string): Cause => ({
  rule: 'preset-target',
  field: 'spec.kind',
  value: target.kind,
  reason: 'FieldValueInvalid',
  message: `the schema of ${targetText(target)} cannot be used: ${fault}`,
})
