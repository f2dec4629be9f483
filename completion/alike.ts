import type { Capabilities } from '../api/capabilities.ts'
import type { Domain } from '../api/domain/domain.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { ObjectMeta } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import { pathKeys } from '../presets/path.ts'
import { contextOf, providedFor, type Completed, type CompleteOptions } from './complete.ts'
import { applyRules } from './defaults/apply.ts'
import { pstorePath } from './defaults/device.ts'
import { nvram } from './defaults/firmware.ts'
import { generationId, macAddress, name, uuid } from './defaults/identity.ts'
import { list, type Rule } from './defaults/rule.ts'

/** All in which VMs that are alike differ, as far as completion goes: who adds a rule that draws, or reads a name, adds it here, or a property fails. */
const identity: readonly Rule[] = [name, uuid, generationId, nvram, pstorePath, macAddress]

const drawing: ReadonlySet<string> = new Set(identity.map((rule) => rule.name))

/** A completed VM in which others are cast that are like it: all of it stands for them too, but what is drawn. */
export interface Mould {
  readonly completed: Completed
  /** Where in the domain what is drawn stands. */
  readonly drawn: readonly (readonly (string | number)[])[]
  readonly rules: readonly Rule[]
  /** What of the domain these rules look at, without what they drew. */
  readonly bare: Domain
  readonly capabilities: Capabilities
}

/** Undefined for a VM that is like no other: what is told of a MAC address that somebody wrote depends on the VMs of the cluster. */
export function mouldOf(completed: Completed, options: Pick<CompleteOptions, 'capabilities'>): Mould | undefined {
  const { machine, origins } = completed
  const { domain } = machine.spec
  const isMacDrawn = (_: unknown, index: number): boolean => {
    const origin = origins.get(`spec.domain.devices.interfaces[${index}].mac.address`)
    return origin?.by === 'default' && origin.rule === macAddress.name
  }
  if (!list(domain, 'interfaces').every(isMacDrawn)) return undefined
  const drawn: (string | number)[][] = []
  let bare: unknown = {
    ...pick(domain, 'name', 'uuid', 'genid', 'os'),
    devices: pick(domain.devices ?? {}, 'interfaces', 'pstore'),
  }
  for (const [path, origin] of origins) {
    if (origin.by !== 'default' || !drawing.has(origin.rule)) continue
    const keys = pathKeys(path).slice(inDomain.length)
    drawn.push(keys)
    bare = withAt(bare, keys, origin.rule === generationId.name ? '' : undefined)
  }
  const names = new Set([...origins.values()].map((origin) => (origin.by === 'default' ? origin.rule : undefined)))
  return {
    completed,
    drawn,
    rules: identity.filter((rule) => names.has(rule.name)),
    // What was taken away is what a user may leave out.
    bare: bare as Domain,
    capabilities: providedFor(machine.spec, options).capabilities,
  }
}

const inDomain = pathKeys('spec.domain')

/** What is drawn for a VM of this name, by the rules that draw: the part of a domain of which they know. */
export const draw = ({ rules, bare, capabilities }: Mould, metadata: ObjectMeta, options: CompleteOptions): Domain =>
  applyRules(rules, bare, contextOf(metadata, capabilities, options)).domain

/** The VM that came out of the mould, with what was drawn for it; of its metadata what completion has to do with. */
export function cast({ completed: { machine } }: Mould, name: string | undefined, drawn: Domain): VirtualMachine {
  const { metadata, spec } = machine
  const { labels, annotations } = metadata
  const domain = { ...spec.domain, ...drawn, devices: { ...spec.domain.devices, ...drawn.devices } }
  return {
    ...machine,
    metadata: { ...(name !== undefined && { name }), ...(labels && { labels }), ...(annotations && { annotations }) },
    spec: { ...spec, domain },
  }
}

/** The VM with other values where it was drawn. */
export function marked({ completed: { machine }, drawn }: Mould, marks: readonly string[]): VirtualMachine {
  const domain = drawn.reduce<unknown>((at, keys, index) => withAt(at, keys, marks[index]), machine.spec.domain)
  return { ...machine, spec: { ...machine.spec, domain: domain as Domain } }
}

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
