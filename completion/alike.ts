import type { Domain } from '../api/domain/domain.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { isRecord } from '../api/schema.ts'
import { pathKeys } from '../presets/path.ts'
import { contextOf, providedFor, type Completed, type CompleteOptions } from './complete.ts'
import { applyRules } from './defaults/apply.ts'
import { pstorePath } from './defaults/device.ts'
import { nvram } from './defaults/firmware.ts'
import { generationId, macAddress, name, uuid } from './defaults/identity.ts'
import { list, type Context, type Rule } from './defaults/rule.ts'
import type { Origins } from './provenance.ts'

/** All in which VMs that are alike differ, as far as completion goes: who adds a rule that draws, or reads a name, adds it here, or a property fails. */
const identity: readonly Rule[] = [name, uuid, generationId, nvram, pstorePath, macAddress]

/** To the letters of Kubernetes' names no rule of the domain objects. */
const plainName = /^[a-z0-9][-a-z0-9.]*$/

/** What VMs that are alike have in common, as text; undefined for a VM that is like no other. */
export function likenessOf({ metadata, spec }: VirtualMachine): string | undefined {
  if (!plainName.test(metadata.name ?? metadata.generateName ?? '')) return undefined
  return JSON.stringify([metadata.labels, metadata.annotations, spec])
}

/** Whether others can be completed as it was: what is told of a MAC address that somebody wrote depends on the VMs of the cluster. */
export const mayHaveLike = ({ machine: { spec }, origins }: Completed): boolean =>
  list(spec.domain, 'interfaces').every((_, index) => {
    const origin = origins.get(`spec.domain.devices.interfaces[${index}].mac.address`)
    return origin?.by === 'default' && origin.rule === macAddress.name
  })

/**
 * What `complete` gives for `machine`, made of what it gave for another VM of the same likeness under the same circumstances (the same presets
 * match, the same capabilities hold): only what is drawn is drawn anew, by the rules that drew it.
 */
export function completeAlike(other: Completed, machine: VirtualMachine, options: CompleteOptions): Completed {
  const { metadata, spec } = other.machine
  const { labels, annotations } = metadata
  const context = contextOf(machine.metadata, providedFor(spec, options).capabilities, options)
  return {
    ...other,
    machine: {
      ...machine,
      metadata: { ...machine.metadata, ...(labels && { labels }), ...(annotations && { annotations }) },
      spec: { ...spec, domain: drawAgain(spec.domain, other.origins, context) },
    },
  }
}

/** The rules of identity over a domain that is nothing but identity, without what they drew the last time. */
function drawAgain(domain: Domain, origins: Origins, context: Context): Domain {
  const { devices = {} } = domain
  let bare: unknown = { ...pick(domain, 'name', 'uuid', 'genid', 'os'), devices: pick(devices, 'interfaces', 'pstore') }
  for (const [path, origin] of origins) {
    if (origin.by !== 'default' || !drawing.has(origin.rule)) continue
    bare = withAt(bare, pathKeys(path.slice('spec.domain.'.length)), origin.rule === generationId.name ? '' : undefined)
  }
  // What was taken away is what a user may leave out.
  const { domain: again } = applyRules(identity, bare as Domain, context)
  return { ...domain, ...again, devices: { ...devices, ...again.devices } }
}

const drawing: ReadonlySet<string> = new Set(identity.map((rule) => rule.name))

function pick<T extends object, K extends keyof T>(object: T, ...keys: readonly K[]): { readonly [P in K]?: T[P] } {
  const picked: { [P in K]?: T[P] } = {}
  for (const key of keys) if (object[key] !== undefined) picked[key] = object[key]
  return picked
}

/** A copy with another value at a path; undefined: with none. */
function withAt(value: unknown, [key, ...below]: readonly (string | number)[], leaf: string | undefined): unknown {
  if (key === undefined) return leaf
  if (Array.isArray(value)) return value.map((item, index) => (index === key ? withAt(item, below, leaf) : item))
  if (!isRecord(value)) return value
  const { [key]: member, ...others } = value
  const left = withAt(member, below, leaf)
  return left === undefined ? others : { ...value, [key]: left }
}
