import { mostAttached, type AttachedVolume } from '../api/attached-volume.ts'
import type { Cause } from '../api/cause.ts'
import { canonicalSpelling } from '../api/domain/canonical.ts'
import type { Domain } from '../api/domain/domain.ts'
import { isRecord } from '../api/schema.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { attachedFindings, prefixes } from './rules/attached-volume.ts'

const busOf = ({ target = {} }: AttachedVolume): string =>
  target.bus ?? [...prefixes].find(([, prefix]) => target.dev?.startsWith(prefix) === true)?.[0] ?? 'virtio'

/**
 * The spec with a name and a bus for each attached volume that has none. The same spec if nothing is absent, so a
 * completed VM does not change.
 */
export function fillAttachedVolumes(spec: VirtualMachineSpec): VirtualMachineSpec {
  const given = spec.attachedVolumes ?? []
  if (given.every(({ target }) => target?.dev !== undefined && target.bus !== undefined)) return spec
  const taken = new Set([
    ...(spec.domain.devices?.disks ?? []).map(({ target }) => target?.dev),
    ...given.map(({ target }) => target?.dev),
  ])
  const attachedVolumes = given.map((one) => {
    const bus = busOf(one)
    const dev = one.target?.dev ?? freeName(prefixes.get(bus) ?? 'vd', taken)
    taken.add(dev)
    return { ...one, target: { ...one.target, dev, bus } }
  })
  return { ...spec, attachedVolumes }
}

/** A VM has at most a thousand disks. */
const mostNames = 26 * 27

function freeName(prefix: string, taken: ReadonlySet<string | undefined>): string {
  for (let index = 0; index < mostNames; index += 1) {
    const name = `${prefix}${lettersOf(index)}`
    if (!taken.has(name)) return name
  }
  return `${prefix}a`
}

/** `a` for 0, `z` for 25, `aa` for 26. */
const lettersOf = (index: number): string => {
  const letter = (number: number) => String.fromCharCode(97 + number)
  return index < 26 ? letter(index) : `${letter(Math.floor(index / 26) - 1)}${letter(index % 26)}`
}

/**
 * The stored spec with the attached volumes of an updated one. Items may omit what completion filled in, and all of them
 * may be absent. Anything but a list is left for validation.
 */
export function withAttachedVolumesOf(sent: unknown, stored: VirtualMachineSpec): VirtualMachineSpec {
  const given = isRecord(sent) ? sent['attachedVolumes'] : undefined
  const { attachedVolumes: _stored, ...rest } = stored
  const before = attachedVolumesOf(stored)
  if (given === undefined || given === null) return before.length === 0 ? stored : rest
  if (!Array.isArray(given) || given.length > mostAttached || !given.every(isAttachedVolume)) {
    // Not of this type: validation refuses it.
    return { ...rest, attachedVolumes: given as readonly AttachedVolume[] }
  }
  const known = new Map(before.map((one) => [one.name, one]))
  const attachedVolumes = given.map((one) => {
    const target = known.get(one.name)?.target
    return target === undefined ? one : { ...one, target: { ...target, ...one.target } }
  })
  return fillAttachedVolumes({ ...rest, attachedVolumes })
}

/** Anything but a list was stored without the webhooks. */
const attachedVolumesOf = ({ attachedVolumes = [] }: VirtualMachineSpec): readonly AttachedVolume[] =>
  Array.isArray(attachedVolumes) ? attachedVolumes : []

const isAttachedVolume = (value: unknown): value is AttachedVolume =>
  isRecord(value) &&
  typeof value['name'] === 'string' &&
  isRecord(value['persistentVolumeClaim']) &&
  (value['target'] === undefined || (isRecord(value['target']) && ['dev', 'bus'].every(isTextIn(value['target']))))

const isTextIn =
  (target: Readonly<Record<string, unknown>>) =>
  (key: string): boolean =>
    target[key] === undefined || typeof target[key] === 'string'

/** Causes for attached volumes that an update adds or changes. */
export function attachedVolumeCauses(spec: VirtualMachineSpec, stored: VirtualMachineSpec): Cause[] {
  const before = new Map(attachedVolumesOf(stored).map((one) => [one.name, JSON.stringify(sorted(one))]))
  const given = spec.attachedVolumes ?? []
  const isOld = ({ name }: AttachedVolume) => before.has(name)
  const changed = given.flatMap((one, index): Cause[] =>
    isOld(one) && before.get(one.name) !== JSON.stringify(sorted(one)) ? [unchangeable(index, one.name)] : [],
  )
  const domain: Domain = canonicalSpelling(spec.domain)
  const found = [...attachedFindings({ spec, domain }, isOld)].filter(({ index }) => {
    const one = given[index]
    return one === undefined || !isOld(one)
  })
  return [...changed, ...found.map(({ finding }) => ({ rule: 'attached-volume', ...finding }))]
}

const sorted = ({ name, persistentVolumeClaim: { claimName, readOnly = false }, target, serial }: AttachedVolume) => [
  name,
  claimName,
  readOnly,
  target?.dev,
  target?.bus,
  serial,
]

const unchangeable = (index: number, name: string): Cause => ({
  rule: 'attached-volume',
  field: `spec.attachedVolumes[${index}]`,
  reason: 'FieldValueForbidden',
  message: `cannot be changed while "${name}" is attached`,
  suggestion: 'remove it, and add it again once status.attachedVolumes no longer has it',
})
