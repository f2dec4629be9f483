import type { Cause } from '../../api/cause.ts'
import { launcherResources } from '../../api/launcher-resources.ts'
import type { Preset } from '../../api/preset.ts'
import type { VirtualMachine, VirtualMachineSpec } from '../../api/virtual-machine.ts'
import type { Completed } from '../../completion/complete.ts'
import { completeWith } from '../../inventory/complete.ts'
import { systemClock } from '../../runtime/clock.ts'
import type { Clock } from '../../runtime/clock.ts'
import { keyOf } from '../../runtime/resource.ts'
import { unmeasured } from '../metrics.ts'
import type { CompletionMetrics, Phase } from '../metrics.ts'
import { requesterOf } from '../tenant-requests.ts'
import { auditAnnotations } from './audit.ts'
import { isSpecUnchanged, requiredPermissions } from './authorize.ts'
import type { AdmissionCaches } from './caches.ts'
import { claimWarnings } from './claim-use.ts'
import { createCompletedVms } from './completed-vms.ts'
import { patchBetween, writePatch, type Patch } from './patch.ts'
import type { May, MayAccess, Permissions } from './permission.ts'
import { checkPresetAmong, sizeOfPreset } from './preset-findings.ts'
import { quotaWarnings } from './quota.ts'
import type { Audit, AdmissionRequest } from './request.ts'

/** What handlers need from completion, presets and the cluster. It holds the caches, so that handlers stay pure. */
export interface Engine {
  /**
   * Resolves once the namespace and every previously admitted preset that can select a VM of it are known; undefined if
   * that is now. All requests that wait for one preset continue at the same time, so each has to take a turn then.
   */
  ready(namespace: string): Promise<unknown> | undefined
  /**
   * The permissions that the request needs beyond RBAC's own check; undefined if there is nothing to review, which is
   * the usual case. Reads the object, so it has to be called in a turn. Rejects with the signal's reason if that aborts
   * during a review.
   */
  permissions(request: AdmissionRequest, signal?: AbortSignal): Promise<Permissions> | undefined
  /** Returns the complete VM with its provenance in the annotation. Equal requests have equal results. */
  complete(
    vm: VirtualMachine,
    request: AdmissionRequest,
    permissions: Permissions,
    /** Paths that were removed from the VM because they are malformed. */
    without?: readonly string[],
  ): Report & ({ readonly completed: Completed } | { readonly causes: readonly Cause[] })
  /** Warnings for the claims that an update attaches to a VM. */
  attachmentWarnings(
    request: AdmissionRequest,
    before: VirtualMachineSpec,
    after: VirtualMachineSpec,
  ): readonly string[]
  patch(
    before: { readonly [key: string]: unknown },
    after: { readonly [key: string]: unknown },
    request: AdmissionRequest,
  ): Patch
  /** Whether the object of the request equals what `complete` has just returned. */
  wasCompletedHere(request: AdmissionRequest): boolean
  /** Makes requests for VMs wait until the cache has the preset that this request is about to store. */
  expectPreset(request: AdmissionRequest): void
  /** Findings beyond the preset's schema. `isCompared`: also those about other presets and the nodes. */
  checkPreset(
    preset: Preset,
    permissions: Permissions,
    isCompared: boolean,
  ): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] }
}

interface Report {
  readonly warnings: readonly string[]
  readonly audit?: Audit
}

/** If a cache is older than this, users are warned that presets may be missing. */
const staleMs = 120_000

const presetKinds = ['VirtualMachinePreset', 'ClusterVirtualMachinePreset']

export function createEngine(
  caches: AdmissionCaches,
  mayAccess: MayAccess,
  clock: Clock = systemClock,
  metrics: CompletionMetrics = unmeasured,
): Engine {
  const completedVms = createCompletedVms(clock)
  const timer = ({ onPart }: AdmissionRequest) => {
    let sinceMs = clock.monotonic()
    return (phase: Phase) => {
      const nowMs = clock.monotonic()
      metrics.phase(phase, (nowMs - sinceMs) / 1000)
      onPart?.(phase, (nowMs - sinceMs) / 1000)
      sinceMs = nowMs
    }
  }
  const warningsOf = (completed: Completed, { namespace }: AdmissionRequest): readonly string[] => {
    const { spec, metadata } = completed.vm
    const quota = quotaWarnings(caches.quota(namespace), () => launcherResources(spec), spec.priorityClassName)
    const claims = claimWarnings(spec, (use) => caches.claimUser(namespace, use, metadata.name))
    return [...completed.warnings, ...staleWarnings(caches.ageMs()), ...quota, ...claims]
  }
  return {
    ready(namespace) {
      const waiting = [caches.pendingPresets.wait(namespace), caches.newNamespaces.wait(namespace)]
      const pending = waiting.filter((one) => one !== undefined)
      return pending.length === 0 ? undefined : Promise.all(pending)
    },
    permissions(request, signal) {
      const requester = requesterOf(request, signal)
      const may: May = (access) => mayAccess(request.user, access, requester)
      return requiredPermissions(caches, may, request)
    },
    complete(vm, request, { exempt }, without = []) {
      const outcome = completeWith(caches, vm, { ...request, exempt }, { without, onPhase: timer(request) })
      metrics.matched(outcome.participants.length)
      if (outcome.outcome === 'refused') {
        const { causes, warnings } = outcome
        return { causes, warnings: [...warnings, ...staleWarnings(caches.ageMs())], audit: auditAnnotations(outcome) }
      }
      completedVms.add(request.namespace, outcome.vm)
      return { completed: outcome, warnings: warningsOf(outcome, request), audit: auditAnnotations(outcome) }
    },
    attachmentWarnings({ name, namespace }, before, after) {
      const known = new Set((before.attachedVolumes ?? []).map((one) => one.name))
      const attachedVolumes = (after.attachedVolumes ?? []).filter((one) => !known.has(one.name))
      return claimWarnings({ domain: {}, attachedVolumes }, (use) => caches.claimUser(namespace, use, name))
    },
    patch(before, after, request) {
      const end = timer(request)
      const patch = writePatch(patchBetween(before, after))
      end('patch')
      return patch
    },
    wasCompletedHere: ({ namespace, object }) => completedVms.has(namespace, object),
    expectPreset(request) {
      const { kind, name, namespace, isDryRun } = request
      if (isDryRun || name === '' || !presetKinds.includes(kind) || isSpecUnchanged(request)) return
      caches.pendingPresets.expect(keyOf(namespace === '' ? { name } : { namespace, name }), sizeOfPreset(request))
    },
    checkPreset: (preset, permissions, isCompared) => checkPresetAmong(caches, preset, permissions, isCompared),
  }
}

const staleWarnings = (ageMs: number): string[] =>
  ageMs > staleMs
    ? [`presets may be out of date: no contact with the API server for ${Math.round(ageMs / 1000)} s`]
    : []
