import fc from 'fast-check'
import { isRecord } from '../../api/schema.ts'
import type { Domain } from '../../api/domain/domain.ts'

type Json = { readonly [key: string]: unknown }
type Change = (domain: Json) => Json

/**
 * Domains similar to the given ones: for another machine type, with parts of others, with duplicated devices, without
 * addresses, models, indexes or any other part. Users also combine a working domain with parts of others.
 */
export const mutants = (domains: readonly Domain[]): fc.Arbitrary<Domain> => {
  const one = fc.constantFrom<Json>(...domains)
  const change = fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(...machines).map(onMachine) },
    { weight: 3, arbitrary: fc.constantFrom(...oftenGiven).map(withoutAny) },
    { weight: 2, arbitrary: fc.nat().map(withoutOne) },
    { weight: 2, arbitrary: fc.nat().map(withTwo) },
    { weight: 1, arbitrary: fc.nat().map(inAnotherOrder) },
    { weight: 5, arbitrary: fc.tuple(one, fc.nat(), fc.boolean()).map((chosen) => withDevice(...chosen)) },
    { weight: 3, arbitrary: fc.tuple(one, fc.nat()).map((chosen) => withPart(...chosen)) },
  )
  // Consists of parts of domains, each in its place.
  return fc
    .tuple(one, fc.array(change, { minLength: 1, maxLength: 5 }))
    .map(([domain, changes]) => changes.reduce((changed, next) => next(changed), domain) as Domain)
}

const machines = ['pc', 'q35', 'pc', 'q35', 'pc-i440fx-6.2', 'pc-q35-5.2', 'isapc', 'microvm'] as const

/** Keys of devices that completion sets if they are missing. */
const oftenGiven = ['address', 'address', 'address', 'model', 'index', 'alias', 'target', 'driver', 'bus'] as const

const onMachine =
  (machine: string): Change =>
  (domain) => {
    const { os } = domain
    const type = isRecord(os) && isRecord(os['type']) ? os['type'] : {}
    return { ...domain, os: { ...Object(os), type: { ...type, machine } } }
  }

const without = (value: unknown, key: string): unknown => {
  if (Array.isArray(value)) return value.map((item) => without(item, key))
  if (!isRecord(value)) return value
  const entries = Object.entries(value).filter(([name]) => name !== key)
  return Object.fromEntries(entries.map(([name, member]) => [name, without(member, key)]))
}

const devicesOf = ({ devices }: Json): Json => (isRecord(devices) ? devices : {})

const withoutAny =
  (key: string): Change =>
  (domain) => ({ ...domain, devices: without(devicesOf(domain), key) })

type Place = readonly (string | number)[]

const placesOf = (value: unknown, path: Place): Place[] => {
  if (typeof value !== 'object' || value === null) return []
  const keys = Array.isArray(value) ? value.map((_, index) => index) : Object.keys(value)
  return keys.flatMap((key) => [[...path, key], ...placesOf(Reflect.get(value, key), [...path, key])])
}

/** Without any one field or item. */
const withoutOne =
  (number: number): Change =>
  (domain) => {
    const place = pick(placesOf(domain, []), number)
    const changed = structuredClone(domain)
    const key = place?.at(-1)
    const holder = place?.slice(0, -1).reduce((value: object, step) => Object(Reflect.get(value, step)), changed)
    if (Array.isArray(holder)) holder.splice(Number(key), 1)
    else if (holder && key !== undefined) Reflect.deleteProperty(holder, key)
    return changed
  }

const pick = <T>(items: readonly T[], number: number): T | undefined =>
  items.length === 0 ? undefined : items[number % items.length]

const listsOf = (domain: Json): [string, readonly unknown[]][] =>
  Object.entries(devicesOf(domain)).flatMap(([key, value]) => (Array.isArray(value) ? [[key, value]] : []))

/** Lists of devices that another change adds. */
const put = (domain: Json, key: string, items: readonly unknown[]): Json => ({
  ...domain,
  devices: { ...devicesOf(domain), [key]: items },
})

const withTwo =
  (number: number): Change =>
  (domain) => {
    const chosen = pick(listsOf(domain), number)
    if (!chosen) return domain
    const [key, items] = chosen
    return put(domain, key, [...items, another(key, pick(items, number >> 4), items)])
  }

const inAnotherOrder =
  (number: number): Change =>
  (domain) => {
    const chosen = pick(listsOf(domain), number)
    return chosen ? put(domain, chosen[0], chosen[1].toReversed()) : domain
  }

/** With one device of another domain. */
const withDevice =
  (other: Json, number: number, hasAddress: boolean): Change =>
  (domain) => {
    const devices = Object.entries(devicesOf(other))
    const [key = '', value] = pick(devices, number) ?? []
    if (!Array.isArray(value))
      return isRecord(value) ? { ...domain, devices: { ...devicesOf(domain), [key]: value } } : domain
    const present = devicesOf(domain)[key]
    const items: readonly unknown[] = Array.isArray(present) ? present : []
    const item: unknown = pick(value, number >> 4)
    return put(domain, key, [...items, hasAddress ? item : another(key, item, items)])
  }

/** A second copy of a device, without fields that must be unique, or with unused values. */
const another = (key: string, device: unknown, items: readonly unknown[]): unknown => {
  if (!isRecord(device)) return device
  const { address: _a, alias: _b, boot: _c, mac: _d, wwn: _e, ...rest } = device
  if (key === 'controllers') return Object.fromEntries(Object.entries(rest).filter(([name]) => name !== 'index'))
  if (key !== 'disks' || !isRecord(rest['target'])) return rest
  const dev = typeof rest['target']['dev'] === 'string' ? rest['target']['dev'] : 'vda'
  return { ...rest, target: { ...rest['target'], dev: freeName(dev.slice(0, 2), items) } }
}

const freeName = (prefix: string, disks: readonly unknown[]): string => {
  const names = new Set(disks.map((disk) => Object(Object(disk).target).dev as unknown))
  const letters = Array.from({ length: 26 }, (_, index) => `${prefix}${String.fromCodePoint(97 + index)}`)
  return letters.find((name) => !names.has(name)) ?? `${prefix}za`
}

/** With another domain's `os`, `cpu`, `features`, …, or without those that it does not have. */
const withPart =
  (other: Json, number: number): Change =>
  (domain) => {
    const keys = [...new Set([...Object.keys(domain), ...Object.keys(other)])].filter(
      (key) => !['devices', 'name', 'uuid'].includes(key),
    )
    const key = pick(keys, number) ?? ''
    const { [key]: _, ...rest } = domain
    return other[key] === undefined ? rest : { ...rest, [key]: other[key] }
  }
