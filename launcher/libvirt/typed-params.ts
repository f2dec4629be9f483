import type { Value } from './xdr.ts'

export type Params = ReadonlyMap<string, Value>

/** libvirt's typed parameters by their name. */
export function paramsOf(value: Value): Params {
  const params = new Map<string, Value>()
  if (!Array.isArray(value)) return params
  for (const one of value) {
    if (typeof one !== 'object' || one === null || Array.isArray(one) || one instanceof Uint8Array) continue
    if (typeof one['field'] === 'string' && one['value'] !== undefined) params.set(one['field'], one['value'])
  }
  return params
}
