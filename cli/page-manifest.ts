import { group, version } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import { toYaml } from '../api/yaml.ts'
import { Usage } from './failure.ts'
import type { Cluster } from './world.ts'

/** A stored object, and what its user can edit of it. */
export interface StoredText {
  readonly object: unknown
  readonly text: string
}

const plurals = [
  'virtualmachines',
  'virtualmachineconfigs',
  'virtualmachinegroups',
  'virtualmachinepresets',
  'clustervirtualmachinepresets',
]

/** Set by kubectl. */
const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'

/** @param query `plural`, `name`, and `namespace` unless the kind is cluster-scoped. @throws Usage, ApiError */
export async function storedText(query: URLSearchParams, { kube }: Cluster): Promise<StoredText> {
  const [plural, namespace, name] = ['plural', 'namespace', 'name'].map((key) => query.get(key) ?? '')
  if (plural === undefined || !plurals.includes(plural)) throw new Usage(`plural: must be one of ${plurals.join(', ')}`)
  if (name === undefined || name === '') throw new Usage('name: is required')
  const scope = namespace === undefined || namespace === '' ? '' : `/namespaces/${encodeURIComponent(namespace)}`
  const path = `/apis/${group}/${version}${scope}/${plural}/${encodeURIComponent(name)}`
  const object = await kube.request('GET', path)
  return { object, text: toYaml(editable(object)) }
}

/** Without the status and what only the API server writes. */
function editable(object: unknown): object {
  const { apiVersion, kind, metadata, spec } = recordOf(object)
  const { name, namespace, labels, annotations } = recordOf(metadata)
  const { [lastApplied]: _, ...own } = recordOf(annotations)
  return {
    apiVersion,
    kind,
    metadata: {
      name,
      ...(namespace === undefined ? {} : { namespace }),
      ...(labels === undefined ? {} : { labels }),
      ...(Object.keys(own).length === 0 ? {} : { annotations: own }),
    },
    spec,
  }
}

const recordOf = (value: unknown): { readonly [key: string]: unknown } => (isRecord(value) ? value : {})
