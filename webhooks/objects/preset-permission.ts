import type { Cause } from '../../api/cause.ts'
import type { ObjectPreset } from '../../api/object-preset.ts'
import { groupOf } from '../../api/preset-target.ts'
import type { ObjectTarget } from '../../inventory/objects.ts'
import { restrictedCause, restrictedUses } from '../../presets/restricted.ts'
import type { May } from '../admission/permission.ts'

/**
 * The permissions that a user lacks to write a preset. Authors of presets decide what others create, so they must be
 * allowed to create and update such objects in the scope of the preset. @throws what `may` throws
 */
export async function missingPermissions(
  { kind, metadata, spec }: ObjectPreset,
  { resource, target, kind: { structure, isNamespaced } }: ObjectTarget,
  may: May,
): Promise<readonly Cause[]> {
  const scope = kind === 'ObjectPreset' ? { namespace: metadata.namespace ?? '' } : {}
  const access = { group: groupOf(spec.target.apiVersion), resource, name: '', ...scope }
  const verbs = ['create', 'update']
  const allowed = await Promise.all(verbs.map((verb) => may({ ...access, verb })))
  const missing = verbs.filter((_, index) => allowed[index] !== true)
  const uses = kind === 'ObjectPreset' ? [] : restrictedUses(spec, target.spec.restricted ?? [], structure)
  const name = metadata.name ?? ''
  const everywhere = isNamespaced ? ' in all namespaces' : ''
  const where = kind === 'ObjectPreset' ? ` in namespace "${metadata.namespace}"` : everywhere
  const mayGrant = uses.length === 0 || (await may({ verb: 'grant-host', resource: 'clusterobjectpresets', name }))
  return [
    ...(missing.length === 0 ? [] : [mayNotWrite(missing, resource, where)]),
    ...(mayGrant ? [] : uses.map((use) => restrictedCause(use, grantMissing))),
  ]
}

const grantMissing =
  'is restricted by the PresetTarget: writing it requires the verb "grant-host" on clusterobjectpresets.virtset.io'

const mayNotWrite = (verbs: readonly string[], resource: string, where: string): Cause => ({
  rule: 'preset-permission',
  field: 'spec.target',
  reason: 'FieldValueForbidden',
  message: `writing a preset requires the permission to ${verbs.join(' and ')} ${resource}${where}`,
})
