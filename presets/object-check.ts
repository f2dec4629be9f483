import type { Cause } from '../api/cause.ts'
import { capCauses, listCauses, noCauses, report, type Causes } from '../api/causes.ts'
import { requiredField, wrongType } from '../api/field-error.ts'
import { checkLabels } from '../api/label.ts'
import { isSecret, type ObjectPreset, type ObjectPresetSpec } from '../api/object-preset.ts'
import { longIntegersIn } from '../api/long-integer.ts'
import { joinPath } from '../api/path.ts'
import { group } from '../api/object.ts'
import { isReservedKey, reservedKey, reservedKeyCauses } from '../api/reserved.ts'
import { isRecord, unknownField } from '../api/schema.ts'
import { checkConditions, checkRemoves, checkSelectors, checkSize, type Checked } from './check.ts'
import { duplicateCauses } from './duplicates.ts'
import { withoutStars } from './items.ts'
import type { ObjectKind } from './object-kind.ts'
import { parseRemovePath, type RemovePath, type RemoveStep } from './remove-path.ts'
import type { ListStructure, ObjectStructure, Structure } from './structure.ts'
import { structureAt, valueAt } from './structure.ts'

/** Checks a preset for objects beyond its schema, with the structure of its kind. */
export function checkObjectPreset(preset: ObjectPreset, kind: ObjectKind): Checked {
  const { spec } = preset
  const tooLarge = checkSize(preset)
  if (tooLarge.length > 0) return { causes: tooLarge, warnings: [] }
  const { object = {}, remove = [] } = spec
  const isForbidden = forbiddenIn(preset.kind)
  const causes = [
    ...checkScope(preset, kind),
    ...checkSelectors(spec),
    ...checkConditions(spec, 'an object'),
    ...checkObject(object, kind.structure, 'spec.object'),
    ...checkLabelsOf(object),
    ...duplicateCauses(kind.structure, object, 'spec.object'),
    ...forbiddenFields(object, 'spec.object', isForbidden),
    ...writeOnlyField(spec),
    ...longIntegersIn(object, 'spec.object').map(longInteger),
    ...checkRemoves(spec, { content: object, structure: kind.structure, whole: ['metadata', 'spec'], example }),
    ...remove.flatMap((text, index) =>
      forbiddenRemoval(text, `spec.remove[${index}]`, { structure: kind.structure, isForbidden }),
    ),
  ]
  return { causes: [...capCauses(causes, 'spec')], warnings: warningsOf(preset) }
}

const example = 'spec.containers[name=debug]'

function checkScope({ kind, spec }: ObjectPreset, { isNamespaced, noun }: ObjectKind): readonly Cause[] {
  if (isNamespaced) return []
  const fault = (field: string, message: string): readonly Cause[] => [
    { rule: 'preset-target', field, reason: 'FieldValueInvalid', message },
  ]
  if (kind === 'ObjectPreset')
    return fault('spec.target.kind', `is cluster-scoped: only a ClusterObjectPreset can select a ${noun}`)
  return spec.namespaceSelector === undefined
    ? []
    : fault('spec.namespaceSelector', `must be absent: a ${noun} is in no namespace`)
}

/** A cause for each field that the kind does not have, and each value of the wrong form. */
function checkObject(object: unknown, structure: Structure, field: string): readonly Cause[] {
  const causes = noCauses()
  checkValue(structure, object, field, causes)
  return listCauses(causes, field)
}

function checkValue(structure: Structure, value: unknown, field: string, causes: Causes): void {
  switch (structure.kind) {
    case 'leaf':
      for (const cause of structure.check?.(value, field) ?? []) report(causes, () => cause)
      return
    case 'object':
      if (!isRecord(value)) return report(causes, () => wrongType(field, value, 'an object'))
      for (const [key, member] of Object.entries(value)) {
        const below = structure.field(key)
        const at = joinPath(field, key)
        if (below === undefined) report(causes, () => unknownField(at, key, member, structure.keys()))
        else checkValue(below, member, at, causes)
      }
      return
    case 'list':
      if (!Array.isArray(value)) return report(causes, () => wrongType(field, value, 'a list'))
      for (const [index, item] of value.entries()) checkItem(structure, item, `${field}[${index}]`, causes)
  }
}

function checkItem(structure: ListStructure, item: unknown, field: string, causes: Causes): void {
  checkValue(structure.item, withoutStars(structure, item), field, causes)
  for (const path of isRecord(item) ? structure.keys.flat() : []) {
    const leaf = structureAt(structure.item, path)
    const hasDefault = leaf?.kind === 'leaf' && leaf.absent !== undefined
    if (path.length === 0 || hasDefault || valueAt(item, path) !== undefined) continue
    report(causes, () => requiredField(`${field}.${path.join('.')}`))
  }
}

function checkLabelsOf({ metadata }: NonNullable<ObjectPresetSpec['object']>): readonly Cause[] {
  const { labels, annotations } = isRecord(metadata) ? metadata : {}
  return [
    ...(isTexts(labels) ? [...checkLabels(labels, labelsPath), ...reservedKeyCauses(labels, labelsPath)] : []),
    ...(isTexts(annotations) ? reservedKeyCauses(annotations, 'spec.object.metadata.annotations') : []),
  ]
}

const labelsPath = 'spec.object.metadata.labels'

const isTexts = (value: unknown): value is { readonly [key: string]: string } =>
  isRecord(value) && Object.values(value).every((one) => typeof one === 'string')

/**
 * A preset must not decide whose rights a pod has, or when and with what an object is deleted, anywhere in it: pods are
 * also in the templates of other kinds.
 */
const forbidden: ReadonlySet<string> = new Set([
  'serviceAccountName',
  'serviceAccount',
  'ownerReferences',
  'finalizers',
])

/**
 * The API server turns the first into `securityContext.appArmorProfile`, provisioners prefer the second to
 * `storageClassName`, and ingress controllers the third to `ingressClassName`: they would bypass what a target restricts.
 */
const annotationsOfFields = [
  'container.apparmor.security.beta.kubernetes.io/',
  'volume.beta.kubernetes.io/storage-class',
  'kubernetes.io/ingress.class',
]

/** A ClusterObjectPreset can set what a target restricts. */
const forbiddenIn =
  (kind: ObjectPreset['kind']) =>
  (key: string): boolean =>
    forbidden.has(key) || (kind === 'ObjectPreset' && annotationsOfFields.some((prefix) => key.startsWith(prefix)))

const forbiddenField = (field: string): Cause => ({
  rule: 'preset-forbidden-field',
  field,
  reason: 'FieldValueForbidden',
  message: 'must not be set or removed by a preset',
})

function forbiddenFields(value: unknown, field: string, isForbidden: (key: string) => boolean): readonly Cause[] {
  const below = (member: unknown, at: string) => forbiddenFields(member, at, isForbidden)
  if (Array.isArray(value)) return value.flatMap((item, index) => below(item, `${field}[${index}]`))
  if (!isRecord(value)) return []
  return Object.entries(value).flatMap(([key, member]) =>
    isForbidden(key) ? [forbiddenField(joinPath(field, key))] : below(member, joinPath(field, key)),
  )
}

/** JSON.parse may have rounded it. */
const longInteger = (field: string): Cause => ({
  rule: 'long-integer',
  field,
  reason: 'FieldValueInvalid',
  message: 'must be between -2^53 and 2^53: a preset cannot set larger integers exactly',
})

/** The API server puts it into `data` once the webhooks have answered, over what the user has there. */
function writeOnlyField({ target, object }: ObjectPresetSpec): readonly Cause[] {
  if (!isSecret({ ...target }) || object?.['stringData'] === undefined) return []
  const field = 'spec.object.stringData'
  const message = 'must not be set by a preset: it would replace data of the user'
  return [{ rule: 'preset-forbidden-field', field, reason: 'FieldValueForbidden', message, suggestion: 'set data' }]
}

interface Removable {
  readonly structure: ObjectStructure
  readonly isForbidden: (key: string) => boolean
}

function forbiddenRemoval(text: string, field: string, { structure, isForbidden }: Removable): readonly Cause[] {
  const steps: RemovePath['steps'] = parseRemovePath(text)?.steps ?? []
  if (steps.some((step) => step.kind === 'key' && isForbidden(step.key))) {
    return [{ ...forbiddenField(field), value: text }]
  }
  const reserved = reservedRemoval(steps)
  if (reserved !== undefined) {
    return [{ rule: 'reserved-key', field, value: text, reason: 'FieldValueForbidden', message: reserved }]
  }
  const removed = steps.at(-1)?.kind === 'key' ? structureBelow(structure, steps) : undefined
  const account = removed === undefined ? undefined : accountIn(removed)
  if (account === undefined) return []
  return [{ ...forbiddenField(field), value: text, message: `would remove ${account}, which presets must not remove` }]
}

/** Why a path must not be removed below the labels and annotations, where virtset and its users keep its own keys. */
function reservedRemoval([first, second, third]: RemovePath['steps']): string | undefined {
  const isOf = (step: RemoveStep | undefined, keys: readonly string[]) =>
    step?.kind === 'key' && keys.includes(step.key)
  if (!isOf(first, ['metadata']) || !isOf(second, ['labels', 'annotations'])) return undefined
  if (third === undefined) return `would remove keys of ${group}, which are reserved; remove single keys`
  return third.kind === 'key' && isReservedKey(third.key) ? reservedKey : undefined
}

/** The structure at a path, also below the items of lists. */
function structureBelow(structure: Structure, steps: RemovePath['steps']): Structure | undefined {
  let at: Structure | undefined = structure
  for (const step of steps) {
    if (step.kind === 'key') at = at?.kind === 'object' ? at.field(step.key) : undefined
    else at = at?.kind === 'list' ? at.item : undefined
  }
  return at
}

/**
 * The field of an object that names a service account: without it, the pods would have the rights of another one. Whole
 * items of lists can be removed with theirs.
 */
function accountIn(structure: Structure, path = '', visited = new Set<Structure>()): string | undefined {
  if (structure.kind !== 'object' || visited.has(structure)) return undefined
  visited.add(structure)
  for (const key of structure.keys()) {
    const at = joinPath(path, key)
    if (key === 'serviceAccountName' || key === 'serviceAccount') return at
    const below = structure.field(key)
    const found = below === undefined ? undefined : accountIn(below, at, visited)
    if (found !== undefined) return found
  }
  return undefined
}

function warningsOf({ kind, spec: { selector, object = {}, remove = [] } }: ObjectPreset): string[] {
  const { matchLabels = {}, matchExpressions = [] } = selector
  const isForAll = Object.keys(matchLabels).length + matchExpressions.length === 0
  const scope = kind === 'ObjectPreset' ? 'its namespace' : 'every namespace that it applies to'
  const changesNothing = Object.keys(object).length + remove.length === 0
  return [
    ...(isForAll ? [`spec.selector: {} selects every object of its kind in ${scope}`] : []),
    ...(changesNothing ? ['spec: injects nothing and removes nothing'] : []),
  ]
}
