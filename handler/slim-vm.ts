import { createHash } from 'node:crypto'
import type { Domain } from '../api/domain/domain.ts'
import { defaultMaxItems } from '../api/domain/limits.ts'
import { isFinished, type VirtualMachineStatus, type VirtualMachine } from '../api/virtual-machine.ts'
import { gracePeriodAnnotation } from '../api/template.ts'
import { sortedJson } from '../api/sorted-json.ts'
import { findCondition } from '../runtime/condition.ts'
import { podEndedCondition } from '../runtime/pod-end.ts'
import { slimProbes } from '../runtime/probe.ts'
import type { Persisted } from '../runtime/resource.ts'
import { countValues } from './domain-size.ts'
import { pick, slimAnnotations, slimMetadata } from '../runtime/slim.ts'

type DomainInterface = NonNullable<NonNullable<Domain['devices']>['interfaces']>[number]

/** A VM as the handler caches it. */
export interface CachedVm extends VirtualMachine {
  /**
   * Its spec is too large for the cache, or it is finished, and then its status is not whole either: it has to be read
   * from the API server when more is needed.
   */
  readonly isPartial?: true
  /** The bytes that an update of its status counts as, because all of the VM is written and sent; absent for a usual one. */
  readonly weight?: number
}

/** Parsing, comparing and storing one value costs as much as reading so many bytes. */
export const bytesPerValue = 32

/** A VM with ten disks has half of it. */
const usualWeight = 128 * 1024

/** Characters of JSON. A usual spec has 3,000; presets can make a megabyte of a few hundred. */
const maxSpec = 16 * 1024

/**
 * A VM with only the metadata that the handler reads, of a large spec only what is needed after the start of the guest,
 * and with a digest instead of the live domain, which is only compared with new ones. Users and launchers decide how
 * large these are (finalizers and owners as well), and those of a full node would not fit into the handler's memory.
 */
export function slimVm(whole: Persisted<CachedVm>): Persisted<CachedVm> {
  if (isFinished(whole)) return finishedVm(whole)
  const specText = JSON.stringify(whole.spec)
  const vm = { ...withoutLargeSpec(whole, specText), ...weightOf(whole, specText) }
  const metadata = {
    ...slimMetadata(vm.metadata, 'generation', 'deletionTimestamp'),
    ...slimAnnotations(vm.metadata, longestAnnotations),
  }
  const { status } = vm
  if (status?.domain === undefined) return { ...vm, metadata }
  return { ...vm, metadata, status: { ...status, domain: digestOf(status.domain) } }
}

/**
 * Of a finished VM, only what the end of its launcher needs, and whether it has taps to be released: users can keep
 * thousands of them on a node.
 */
function finishedVm({ metadata, spec, status = {}, ...vm }: Persisted<CachedVm>): Persisted<CachedVm> {
  const ended = findCondition(status.conditions, podEndedCondition)
  const hasTaps = (spec.taps ?? []).length > 0
  return {
    ...pick(vm, 'apiVersion', 'kind'),
    metadata: slimMetadata(metadata, 'generation', 'deletionTimestamp'),
    spec: { domain: {}, ...(hasTaps ? { taps: [someTap] } : {}) },
    status: { ...pick(status, 'phase', 'podUID'), ...(ended === undefined ? {} : { conditions: [ended] }) },
    isPartial: true,
  }
}

const someTap = Object.freeze({ dev: '', plugin: '' })

function weightOf({ weight, metadata, spec, status = {} }: Persisted<CachedVm>, specText: string) {
  if (weight !== undefined) return { weight }
  const characters = specText.length + JSON.stringify([metadata, status]).length
  const found = characters + bytesPerValue * countValues([metadata, spec, status])
  return found > usualWeight ? { weight: found } : {}
}

function withoutLargeSpec(vm: Persisted<CachedVm>, specText: string): Persisted<CachedVm> {
  if (specText.length <= maxSpec) return vm
  const { terminationGracePeriodSeconds: grace, taps, attachedVolumes } = vm.spec
  const { type } = vm.spec.domain
  const interfaces = interfacesOf(vm)
  const spec = {
    domain: {
      ...(type === 'kvm' || type === 'qemu' ? { type } : {}),
      ...(interfaces.length === 0 ? {} : { devices: { interfaces } }),
    },
    ...(grace === undefined ? {} : { terminationGracePeriodSeconds: grace }),
    ...(taps === undefined ? {} : { taps }),
    ...(attachedVolumes === undefined ? {} : { attachedVolumes }),
    ...slimProbes(vm.spec),
  }
  return { ...vm, spec, isPartial: true }
}

/** What identifies each interface: the status has only interfaces of the spec. */
const interfacesOf = ({ spec: { domain } }: CachedVm): DomainInterface[] =>
  (domain.devices?.interfaces ?? []).slice(0, defaultMaxItems).map(({ mac, target }) => ({
    ...(isIdentity(mac?.address) ? { mac: { address: mac.address } } : {}),
    ...(isIdentity(target?.dev) ? { target: { dev: target.dev } } : {}),
  }))

/** The digits of seconds. */
const longestAnnotations = { [gracePeriodAnnotation]: 10 }

/** Longer than a MAC address and the name of a device. */
const maxIdentity = 64

const isIdentity = (text: string | undefined): text is string => text !== undefined && text.length <= maxIdentity

/** The digest of a domain in a slim VM, independent of the order of keys, which the API server does not preserve. */
export function digestOf(domain: NonNullable<VirtualMachineStatus['domain']>): { readonly digest: string } {
  return { digest: createHash('sha256').update(sortedJson(domain)).digest('base64') }
}
