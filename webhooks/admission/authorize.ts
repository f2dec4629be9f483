import { maxAnnotationsBytes } from '../../api/metadata.ts'
import { parsePreset } from '../../api/preset.ts'
import { isRecord } from '../../api/schema.ts'
import { excludePresetsAnnotation } from '../../api/virtual-machine.ts'
import { areTooLarge } from '../../completion/labels-size.ts'
import type { Inventory } from '../../inventory/inventory.ts'
import { exemptionsToAuthorize } from '../../presets/exclude.ts'
import { needsGrant } from '../../presets/grant.ts'
import { noPermissions } from './permission.ts'
import type { May, Permissions } from './permission.ts'
import type { AdmissionRequest } from './request.ts'
import { isSameJson } from './same-json.ts'

/**
 * Reviews the user's access if RBAC alone does not decide: `grant-host` for a cluster preset that grants host reach,
 * `exempt` for each preset that a VM excludes. Undefined if no review is needed.
 */
export function requiredPermissions(
  inventory: Pick<Inventory, 'candidates' | 'namespace'>,
  may: May,
  request: AdmissionRequest,
): Promise<Permissions> | undefined {
  const { kind, object, operation } = request
  if (!isRecord(object) || !isRecord(object['metadata'])) return undefined
  if (kind === 'ClusterVirtualMachinePreset') return mayGrant(may, request)
  const { annotations, labels } = object['metadata']
  // A stored VM is not completed again.
  const isNewVm = kind === 'VirtualMachine' && operation === 'CREATE'
  const exclusion = isNewVm ? exclusionOf(annotations) : undefined
  // Larger labels are refused, whatever the user may exclude.
  if (exclusion === undefined || areTooLarge(labels)) return undefined
  const selected = inventory.candidates.select(stringsOf(labels), inventory.namespace(request.namespace))
  const ids = exemptionsToAuthorize(exclusion, selected)
  if (ids.length === 0) return undefined
  return exemptFrom(presetResources, ids, may).then((exempt) => ({ ...noPermissions, exempt }))
}

/**
 * The annotation that excludes presets, alone. Undefined if there is none, and if it is larger than the API server
 * accepts: then the object is refused whatever its user may exclude.
 */
export function exclusionOf(annotations: unknown): { readonly [key: string]: string } | undefined {
  const key = excludePresetsAnnotation
  const value = isRecord(annotations) && Object.hasOwn(annotations, key) ? annotations[key] : undefined
  return typeof value !== 'string' || value.length > maxAnnotationsBytes ? undefined : { [key]: value }
}

/** Of one request; more of a namespace are not sent at once. */
const reviewsAtOnce = 4

const presetResources = { namespaced: 'virtualmachinepresets', cluster: 'clustervirtualmachinepresets' }

function mayGrant(may: May, request: AdmissionRequest): Promise<Permissions> | undefined {
  const parsed = parsePreset(request.object)
  if (!('preset' in parsed) || !needsGrant(parsed.preset)) return undefined
  // Users without the permission may change labels and annotations.
  if (isSpecUnchanged(request)) return Promise.resolve({ ...noPermissions, mayGrantHost: true })
  const access = { verb: 'grant-host', resource: 'clustervirtualmachinepresets', name: request.name }
  return may(access).then((mayGrantHost) => ({ ...noPermissions, mayGrantHost }))
}

/** The presets from which the user may exempt an object, of those with these IDs. */
export async function exemptFrom(
  resources: { readonly namespaced: string; readonly cluster: string },
  ids: readonly string[],
  may: May,
): Promise<ReadonlySet<string>> {
  const mayExclude = (id: string): Promise<boolean> => {
    const [first = '', second] = id.split('/')
    return second === undefined
      ? may({ verb: 'exempt', resource: resources.cluster, name: first })
      : may({ verb: 'exempt', resource: resources.namespaced, namespace: first, name: second })
  }
  const exempt = new Set<string>()
  const left = ids.values()
  const review = async (): Promise<void> => {
    for (const id of left) if (await mayExclude(id)) exempt.add(id)
  }
  await Promise.all(Array.from({ length: reviewsAtOnce }, review))
  return exempt
}

export const isSpecUnchanged = ({ object, oldObject }: AdmissionRequest): boolean =>
  isRecord(object) && isRecord(oldObject) && isSameJson(oldObject['spec'], object['spec'])

/** The members of a map that are texts. */
export const stringsOf = (value: unknown): { readonly [key: string]: string } =>
  Object.fromEntries(
    Object.entries(isRecord(value) ? value : {}).flatMap(([key, item]) =>
      typeof item === 'string' ? [[key, item]] : [],
    ),
  )
