import { createHash } from 'node:crypto'
import type { Domain } from '../api/domain/domain.ts'
import { defaultMaxItems } from '../api/domain/limits.ts'
import { isFinished, type VirtualMachineStatus, type VirtualMachine } from '../api/virtual-machine.ts'
import { probeNames } from '../api/probe.ts'
import { gracePeriodAnnotation } from '../api/template.ts'
import { sortedJson } from '../api/sorted-json.ts'
import { findCondition } from '../runtime/condition.ts'
import { podEndedCondition } from '../runtime/pod-end.ts'
import { slimProbes } from '../runtime/probe.ts'
import { wholeUpTo, type Measured } from '../runtime/partial-json.ts'
import { identity, resource, virtualMachines, type Persisted } from '../runtime/resource.ts'
import { pick, slimAnnotations, slimMetadata } from '../runtime/slim.ts'

type DomainInterface = NonNullable<NonNullable<Domain['devices']>['interfaces']>[number]

/** A VM as the handler reads and caches it. */
export interface CachedVm extends VirtualMachine, Measured {
  readonly spec: VirtualMachine['spec'] & Measured
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
export const usualWeight = 128 * 1024

/** Bytes of JSON. A usual spec has 3,000; presets can make a megabyte of a few hundred. */
const maxSpec = 16 * 1024

/** The digits of seconds. */
const longestAnnotations = { [gracePeriodAnnotation]: 10 }

const readMetadata = {
  ...identity,
  generation: true,
  deletionTimestamp: true,
  annotations: { [gracePeriodAnnotation]: true },
} as const

const { accepts: _accepts, ...kind } = virtualMachines

/**
 * Without what the cache drops: the handler gets each VM twice that it updates, as the response and as an event, and a
 * megabyte of many values takes 0.2 s to be parsed, during which nothing else is done.
 */
export const cachedVms = resource<CachedVm>({
  ...kind,
  read: {
    [wholeUpTo]: 0,
    apiVersion: true,
    kind: true,
    metadata: readMetadata,
    spec: {
      [wholeUpTo]: maxSpec,
      domain: {
        type: true,
        devices: { interfaces: [defaultMaxItems, { mac: { address: true }, target: { dev: true } }] },
      },
      terminationGracePeriodSeconds: true,
      taps: true,
      attachedVolumes: true,
      ...Object.fromEntries(probeNames.map((name) => [name, {}])),
    },
    status: true,
  },
})

/** To be handed to their launchers. */
export const launcherVms = resource<CachedVm>({ ...kind, read: { '*': true, metadata: readMetadata } })

/**
 * A VM with only the metadata that the handler reads, of a large spec only what is needed after the start of the guest,
 * and with a digest instead of the live domain, which is only compared with new ones. Users and launchers decide how
 * large these are (finalizers and owners as well), and those of a full node would not fit into the handler's memory.
 * @param read as `cachedVms` has it
 */
export function slimVm(read: Persisted<CachedVm>): Persisted<CachedVm> {
  if (isFinished(read)) return finishedVm(read)
  const { '#': size, ...vm } = withoutLargeSpec(read)
  const weight = size === undefined ? 0 : size.bytes + bytesPerValue * size.values
  const slim = {
    ...vm,
    metadata: {
      ...slimMetadata(vm.metadata, 'generation', 'deletionTimestamp'),
      ...slimAnnotations(vm.metadata, longestAnnotations),
    },
    ...(weight > usualWeight ? { weight } : {}),
  }
  const { status } = vm
  return status?.domain === undefined ? slim : { ...slim, status: { ...status, domain: digestOf(status.domain) } }
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

function withoutLargeSpec(vm: Persisted<CachedVm>): Persisted<CachedVm> {
  if (vm.spec['#'] === undefined) return vm
  const { type } = vm.spec.domain
  const interfaces = interfacesOf(vm)
  const spec = {
    domain: {
      ...(type === 'kvm' || type === 'qemu' ? { type } : {}),
      ...(interfaces.length === 0 ? {} : { devices: { interfaces } }),
    },
    ...pick(vm.spec, 'terminationGracePeriodSeconds', 'taps', 'attachedVolumes'),
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

/** Longer than a MAC address and the name of a device. */
const maxIdentity = 64

const isIdentity = (text: string | undefined): text is string => text !== undefined && text.length <= maxIdentity

/** The digest of a domain in a slim VM, independent of the order of keys, which the API server does not preserve. */
export function digestOf(domain: NonNullable<VirtualMachineStatus['domain']>): { readonly digest: string } {
  return { digest: createHash('sha256').update(sortedJson(domain)).digest('base64') }
}
