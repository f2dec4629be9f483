import type { Json, SpecDrift } from '../runtime/launcher-api.ts'

/** More say nothing more. */
const maxDrifts = 100

/**
 * Where two canonical domains differ, by field path below `field`: what the spec says and what libvirt made of it.
 * Empty if they mean the same.
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
  if (isRecord(spec) && isRecord(libvirt)) {
    const keys = [...new Set([...Object.keys(spec), ...Object.keys(libvirt)])]
    return keys.flatMap((key) => differences(spec[key], libvirt[key], `${field}.${key}`))
  }
  return [{ field, ...(spec === undefined ? {} : { spec }), ...(libvirt === undefined ? {} : { libvirt }) }]
}

function isRecord(value: Json | undefined): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
