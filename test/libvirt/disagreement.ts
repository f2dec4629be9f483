import type { Cause, Origin } from '../../api/cause.ts'
import { canonical } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { validateDomain } from '../../api/domain/validate.ts'
import { writeDomain } from '../../api/domain/xml.ts'
import type { Capabilities } from '../../api/capabilities.ts'
import { machineType } from '../../completion/capabilities.ts'
import { addedPaths } from '../../completion/defaults/apply.ts'
import { fillDefaults } from '../../completion/defaults/defaults.ts'
import { cpuHost } from '../../completion/rules/cpu-host.ts'
import { checkRules } from '../../completion/rules/rules.ts'
import { firstDifference } from '../corpus/difference.ts'
import type { Oracle } from './oracle.ts'

/** A disagreement between libvirt and our completion. */
export interface Disagreement {
  /**
   * `missing-rule`: libvirt refuses a domain that we accept. `false-refusal`: libvirt accepts a domain that we refuse.
   * `broken-by-defaults`: libvirt accepts the domain, but not with our defaults. `changed`: libvirt changes our
   * completed domain. `different`: libvirt's defaults differ from ours.
   */
  readonly kind: 'missing-rule' | 'false-refusal' | 'broken-by-defaults' | 'changed' | 'different'
  /**
   * Groups disagreements with the same cause: libvirt's message or our rule, without names and numbers, or the path
   * that differs.
   */
  readonly signature: string
  readonly detail: string
}

/** `unsettled`: libvirt refuses or changes its own result for the domain, so that it cannot be completed. */
export type Comparison =
  | { readonly outcome: 'taken' | 'refused' | 'unsettled'; readonly disagreement?: undefined }
  | { readonly outcome: 'disagreed'; readonly disagreement: Disagreement }

const entropy = { uid: 'example' }
const name = 'example'

/** Completes as at admission: libvirt has not seen the domain before. */
export const complete = (domain: Domain, capabilities: Capabilities): Domain =>
  fillDefaults(domain, { capabilities, entropy, name, isNew: true }).domain

/** The domain as libvirt prints it, which does not use aliases of machine types. */
export const printed = (domain: Domain, capabilities: Capabilities): string => {
  const machine = domain.os?.type?.machine
  const known = machine === undefined ? undefined : machineType(capabilities, machine)?.name
  return writeDomain(
    canonical(
      known === undefined ? domain : { ...domain, os: { ...domain.os, type: { ...domain.os?.type, machine: known } } },
    ),
  )
}

/** Why libvirt does not start a domain that it accepts. It checks many things only at start. */
export const startFault = (domain: Domain, oracle: Oracle): Promise<string | undefined> =>
  oracle.start(writeDomain({ ...domain, name }))

/** Compares our result for a domain with libvirt's, and libvirt's for our completed domain. */
export async function compare(domain: Domain, oracle: Oracle): Promise<Comparison> {
  const { capabilities } = oracle
  const refusal = refusalOf(domain, capabilities)
  const whole = refusal?.isMalformed ? undefined : complete(domain, capabilities)
  const plain = whole === undefined ? domain : withIdentity(domain, whole)
  const result = await oracle.define(writeDomain(plain), false)
  if (refusal) {
    // The launcher also validates against libvirt's schema.
    const isRefused = result.outcome === 'refused' || (await oracle.define(writeDomain(plain))).outcome === 'refused'
    return isRefused ? { outcome: 'refused' } : disagreed('false-refusal', refusal.signature, refusal.message)
  }
  if (result.outcome === 'refused') return disagreed('missing-rule', withoutNames(result.message), result.message)
  if (whole === undefined) throw new Error('what is not refused is completed')
  const expected = printed(whole, capabilities)
  const again = await oracle.define(expected)
  const found =
    again.outcome === 'refused'
      ? disagreed('broken-by-defaults', withoutNames(again.message), again.message)
      : (differs('different', result.xml, expected) ?? differs('changed', again.xml, expected))
  if (!found) return { outcome: 'taken' }
  return (await isSettled(result.xml, oracle)) ? found : { outcome: 'unsettled' }
}

/** Whether libvirt's result is stable if it is defined again. */
const isSettled = async (xml: string, oracle: Oracle): Promise<boolean> => {
  const again = await oracle.define(xml, false)
  return again.outcome === 'taken' && firstDifference(xml, again.xml) === undefined
}

const disagreed = (kind: Disagreement['kind'], signature: string, detail: string): Comparison => ({
  outcome: 'disagreed',
  disagreement: { kind, signature, detail },
})

const differs = (kind: Disagreement['kind'], libvirt: string, ours: string): Comparison | undefined => {
  const found = firstDifference(libvirt, ours)
  if (!found) return undefined
  const place = found.path.replaceAll(/\[\d+\]/g, '')
  const isOrder =
    place.startsWith('/domain/devices/disk/') && areSameInOtherOrder(diskTargets(libvirt), diskTargets(ours))
  const signature = isOrder ? '/domain/devices/disk in another order' : place
  return disagreed(
    kind,
    signature,
    `${found.path}: libvirt ${found.expected ?? 'nothing'}, we ${found.actual ?? 'nothing'}`,
  )
}

/** Disks in another order differ in varying paths, but count as one kind of disagreement. */
const areSameInOtherOrder = (left: readonly string[], right: readonly string[]): boolean =>
  left.join() !== right.join() && left.toSorted().join() === right.toSorted().join()

const diskTargets = (xml: string): string[] =>
  [...xml.matchAll(/<disk [\s\S]*?<target dev=["'](\w+)/g)].map(([, dev = '']) => dev)

interface Refusal {
  readonly isMalformed: boolean
  readonly signature: string
  readonly message: string
}

const refusalOf = (domain: Domain, capabilities: Capabilities): Refusal | undefined => {
  const malformed = validateDomain(domain)
  // What the host's CPU does not have, libvirt finds when it starts the guest.
  const isOfHost = ({ rule }: Cause) => rule === cpuHost.id
  const causes = malformed.length > 0 ? malformed : causesOf(domain, capabilities).filter((cause) => !isOfHost(cause))
  const [first] = causes
  if (!first) return undefined
  return {
    isMalformed: malformed.length > 0,
    signature: `${first.rule} ${first.field.replaceAll(/\[\d+\]/g, '[]')}`,
    message: causes.map(({ rule, field, message }) => `${field} ${message} (${rule})`).join('; '),
  }
}

export const causesOf = (domain: Domain, capabilities: Capabilities): readonly Cause[] => {
  const { domain: whole, added } = fillDefaults(domain, { capabilities, entropy, name, isNew: true })
  const paths = addedPaths(added, whole)
  const originOf = (path: string): Origin => {
    const rule = paths.get(path.replace(/^spec\.domain\./, ''))
    return rule === undefined ? { by: 'user' } : { by: 'default', rule }
  }
  return checkRules({ domain: whole }, { capabilities, originOf, isGranted: () => true }).causes
}

export const withoutNames = (message: string): string =>
  message
    .replace(/^XML document failed to validate against schema: Unable to validate doc against \S+/, 'schema:')
    .replaceAll(/'[^']*'|"[^"]*"/g, '…')
    .replaceAll(/(?<![a-zA-Z])(0x[0-9a-f]+|\d[\d:.a-f]*)/g, 'N')
    .replaceAll(/\s+/g, ' ')
    .trim()

/** libvirt generates random values each time, so it is given ours. */
export const withIdentity = (domain: Domain, whole: Domain): Domain => {
  const interfaces = domain.devices?.interfaces?.map((one, index) => {
    const { mac, virtualport } = whole.devices?.interfaces?.[index] ?? {}
    return { ...one, ...(mac ? { mac } : {}), ...(virtualport ? { virtualport } : {}) }
  })
  return {
    ...domain,
    name: domain.name ?? name,
    ...(whole.uuid === undefined ? {} : { uuid: whole.uuid }),
    ...(whole.genid === undefined ? {} : { genid: whole.genid }),
    ...(interfaces ? { devices: { ...domain.devices, interfaces } } : {}),
  }
}

/**
 * The smallest part of a value for which `holds` is still true: fields and items are removed one by one until none can
 * be. `holds` is called once for each field, and again after each removal.
 */
export async function shrink<T extends object>(value: T, holds: (smaller: T) => Promise<boolean>): Promise<T> {
  let smallest = value
  let skipped = 0
  for (;;) {
    const places = placesOf(smallest, [])
    const place = places[skipped]
    if (place === undefined) return smallest
    const smaller = structuredClone(smallest)
    remove(smaller, place)
    if (await holds(smaller)) smallest = smaller
    else skipped += 1
  }
}

type Place = readonly (string | number)[]

/** Every field and item, parents before children. */
const placesOf = (value: unknown, path: Place): Place[] => {
  if (typeof value !== 'object' || value === null) return []
  const keys = Array.isArray(value) ? value.map((_, index) => index) : Object.keys(value)
  return keys.flatMap((key) => [[...path, key], ...placesOf(Reflect.get(value, key), [...path, key])])
}

const remove = (from: object, place: Place): void => {
  const [key, ...rest] = place
  if (key === undefined) return
  if (rest.length > 0) remove(Object(Reflect.get(from, key)), rest)
  else if (Array.isArray(from)) from.splice(Number(key), 1)
  else Reflect.deleteProperty(from, key)
}
