import { canonical } from '../api/domain/canonical.ts'
import type { Domain } from '../api/domain/domain.ts'
import { withoutSecrets } from '../api/domain/secret.ts'
import type { Json, JsonObject, SpecDrift } from '../runtime/launcher-api.ts'

/** A longer list would not be read. */
const maxDrifts = 100

/**
 * The fields in which `libvirt`, the domain as libvirt defined it, differs in meaning from `spec`. libvirt does not show
 * secrets, and neither do these.
 */
export function specDrift(spec: Domain, libvirt: Domain): SpecDrift[] {
  const [before, after] = [spec, libvirt].map((domain) => withoutSecrets(jsonOf(canonical(domain))))
  return driftBetween(before, after).filter((drift) => !isAlias(drift))
}

/** An unversioned machine type is an alias of one with this prefix; libvirt stores the one of its QEMU. */
const machineAliases: { readonly [alias: string]: string } = { pc: 'pc-i440fx-', q35: 'pc-q35-' }

function isAlias({ field, spec, libvirt }: SpecDrift): boolean {
  if (field !== 'spec.domain.os.type.machine' || typeof spec !== 'string' || typeof libvirt !== 'string') return false
  const prefix = machineAliases[spec]
  return prefix !== undefined && libvirt.startsWith(prefix)
}

/** The value as JSON, without keys whose value is undefined. */
export function jsonOf(domain: Domain): Json {
  return JSON.parse(JSON.stringify(domain))
}

/**
 * The differences between two canonical domains, by field path below `field`: the value in the spec and libvirt's.
 * Empty if the domains have the same meaning.
 */
export function driftBetween(spec: Json | undefined, libvirt: Json | undefined, field = 'spec.domain'): SpecDrift[] {
  return differences(spec, libvirt, field).slice(0, maxDrifts)
}

function differences(spec: Json | undefined, libvirt: Json | undefined, field: string): SpecDrift[] {
  if (spec === libvirt) return []
  if (Array.isArray(spec) && Array.isArray(libvirt)) {
    const length = Math.max(spec.length, libvirt.length)
    return Array.from({ length }, (_, index) => differences(spec[index], libvirt[index], `${field}[${index}]`)).flat()
  }
  if (isJsonObject(spec) && isJsonObject(libvirt)) {
    const keys = [...new Set([...Object.keys(spec), ...Object.keys(libvirt)])]
    return keys.flatMap((key) => differences(spec[key], libvirt[key], `${field}.${key}`))
  }
  return [{ field, ...(spec === undefined ? {} : { spec }), ...(libvirt === undefined ? {} : { libvirt }) }]
}

export function isJsonObject(value: Json | undefined): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
