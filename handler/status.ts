import { isIPv4 } from 'node:net'
import { isDeepStrictEqual } from 'node:util'
import type { AttachedVolumeStatus } from '../api/attached-volume.ts'
import { defaultMaxItems } from '../api/domain/limits.ts'
import { isSecret, withoutSecrets } from '../api/domain/secret.ts'
import { natPlugin, networkRef, podInterfaceOf, podPlugins, type Tap } from '../api/tap.ts'
import {
  macOf,
  type InterfaceStatus,
  type VirtualMachineStatus,
  type Phase,
  type VirtualMachine,
} from '../api/virtual-machine.ts'
import type { Condition } from '../api/object.ts'
import { firstTexts, shorten } from '../api/shorten.ts'
import {
  downloadFailed,
  fillingDisk,
  noSpace,
  type DomainReport,
  type Json,
  type JsonObject,
} from '../runtime/launcher-api.ts'
import { agentCondition } from '../runtime/guest-info.ts'
import { findCondition, setCondition, statusMessage } from '../runtime/condition.ts'
import { disruptionTarget, podTerminated } from '../runtime/disruption.ts'
import { enterPhase } from '../runtime/phase-times.ts'
import { podEndedCondition } from '../runtime/pod-end.ts'
import { unreadinessOf } from '../runtime/probe.ts'
import { shownLine } from '../runtime/shown-text.ts'
import { isLarge, mostShownDrifts } from './domain-size.ts'
import { shownDomain } from './shown-domain.ts'
import { attachedVolumesOf, noSockets, troublesOf, type AttachmentSockets } from './attachment.ts'
import { digestOf } from './slim-vm.ts'
import type { TapIPs } from './vm-network.ts'

/** The status of a VM whose launcher responded. */
export function statusOf(
  vm: VirtualMachine,
  report: DomainReport,
  podIPs: readonly string[],
  now: string,
  {
    tapIPs = new Map(),
    misbehavior,
    sockets = noSockets,
  }: {
    readonly tapIPs?: TapIPs | undefined
    readonly misbehavior?: string | undefined
    readonly sockets?: AttachmentSockets
  } = {},
): VirtualMachineStatus {
  const before = vm.status ?? {}
  const domain = domainOf(report)
  const ips = podIPs.length > 0 ? podIPs : (before.podIPs ?? []).map(({ ip }) => ip)
  const { guest: _guest, frozen: _frozen, attachedVolumes: _attached, ...others } = before
  const attachedVolumes = attachedVolumesOf(vm, report, sockets)
  const { reason: _reason, message: _message, ...rest } = others
  const status: VirtualMachineStatus = {
    // The reason and message belong to the phase before.
    ...(isAlive(report) ? rest : others),
    ...phaseOf(report),
    ...(ips[0] === undefined ? {} : { podIP: ips[0], podIPs: ips.map((ip) => ({ ip })) }),
    ...(domain === undefined
      ? {}
      : {
          domain: newDomain(before, domain),
          interfaces: interfacesOf(vm, domain, ips, tapIPs).map((one) => inGuest(one, report)),
        }),
    ...guestOf(report),
    ...(attachedVolumes.length === 0 ? {} : { attachedVolumes }),
    ...(report.frozen === undefined || report.exit !== undefined ? {} : { frozen: report.frozen }),
  }
  return conclude(
    before,
    status,
    [...conditionsOf(vm, report, misbehavior, attachedVolumes), ...disruptionOf(vm, report)],
    vm,
    now,
  )
}

/** The status of a VM that its launcher refused to run; `message` is libvirt's own. */
export function failedStatus(vm: VirtualMachine, reason: string, message: string, now: string): VirtualMachineStatus {
  const before = vm.status ?? {}
  const conditions = neitherSynchronizedNorReady('False', reason, message)
  return conclude(before, { ...before, phase: 'Failed', reason, message }, conditions, vm, now)
}

/** The status of a VM whose launcher has been silent for long. The phase stays, since nothing is known. */
export function silentStatus(vm: VirtualMachine, reason: string, message: string, now: string): VirtualMachineStatus {
  const before = vm.status ?? {}
  return conclude(before, before, neitherSynchronizedNorReady('Unknown', reason, message), vm, now)
}

/** The status of a VM whose guest waits for its network. */
export function withoutNetworkStatus(
  vm: VirtualMachine,
  reason: string,
  message: string,
  now: string,
): VirtualMachineStatus {
  const before = vm.status ?? {}
  return conclude(before, before, neitherSynchronizedNorReady('False', reason, message), vm, now)
}

const neitherSynchronizedNorReady = (status: 'False' | 'Unknown', reason: string, message: string): Asserted[] =>
  ['Synchronized', 'Ready'].map((type) => ({ type, status, reason, message }))

const launcherPresent = {
  type: podEndedCondition,
  status: 'False',
  reason: 'LauncherPresent',
  message: 'the volumes of the pod still exist on its node, so QEMU may still run',
} as const
const launcherAbsent = {
  type: podEndedCondition,
  status: 'True',
  reason: 'LauncherAbsent',
  message: 'the pod has no launcher on its node',
} as const

/**
 * The answer to a controller that awaits the end of the launcher. It does not depend on the phase: that a guest has
 * ended is what its launcher claims.
 * @param hasVolume whether the kubelet still holds the volume of the launcher's socket
 */
export function podEndedStatus(vm: VirtualMachine, hasVolume: boolean, now: string): VirtualMachineStatus {
  const before = vm.status ?? {}
  return conclude(before, before, [hasVolume ? launcherPresent : launcherAbsent], vm, now)
}

/** A deletion increments the generation. Observing that is not worth an update of its own: the shutdown brings one. */
export function isChanged(vm: VirtualMachine, status: VirtualMachineStatus): boolean {
  const before = vm.status ?? {}
  if (vm.metadata.deletionTimestamp === undefined) return !isDeepStrictEqual(before, status)
  return !isDeepStrictEqual(withoutGeneration(before), withoutGeneration(status))
}

function withoutGeneration(status: VirtualMachineStatus): object {
  return { ...status, conditions: status.conditions?.map((condition) => ({ ...condition, observedGeneration: 0 })) }
}

type Asserted = Omit<Condition, 'lastTransitionTime' | 'observedGeneration'>

function conclude(
  before: VirtualMachineStatus,
  status: VirtualMachineStatus,
  asserted: readonly Asserted[],
  vm: VirtualMachine,
  now: string,
): VirtualMachineStatus {
  const observedGeneration = vm.metadata.generation ?? 1
  const conditions = asserted.reduce<readonly Condition[]>(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now),
    before.conditions ?? [],
  )
  const { phase, message } = status
  const concluded = { ...status, ...(message === undefined ? {} : { message: statusMessage(message) }), conditions }
  if (phase === undefined || phase === before.phase) return concluded
  const phaseTransitionTimestamps = enterPhase(before.phaseTransitionTimestamps ?? [], phase, now)
  return { ...concluded, phaseTransitionTimestamps }
}

function phaseOf(report: DomainReport): { phase?: Phase; reason?: string; message?: string } {
  const { exit, message } = report
  if (exit !== undefined)
    return { phase: exit, reason: capital(report.reason), ...(message === undefined ? {} : { message }) }
  return isAlive(report) ? { phase: 'Running' } : {}
}

/** Whether there is a QEMU process. */
export function isAlive(report: DomainReport): boolean {
  return report.phase === 'Running' || report.phase === 'Paused' || report.phase === 'ShuttingDown'
}

function conditionsOf(
  vm: VirtualMachine,
  report: DomainReport,
  misbehavior: string | undefined,
  attached: readonly AttachedVolumeStatus[],
): Asserted[] {
  const drifts = report.specDrift ?? []
  const drift: Asserted[] =
    drifts.length === 0
      ? []
      : [{ type: 'SpecDrift', status: 'True', reason: 'LibvirtChangedSpec', message: driftMessage(drifts) }]
  return [readinessOf(vm, report), synchronization(vm, report, misbehavior, attached), ...agentOf(vm, report), ...drift]
}

/** The end of a guest whose pod was terminated, unless that was requested or the controller knows the reason. */
function disruptionOf(vm: VirtualMachine, { exit, isTerminated = false }: DomainReport): Asserted[] {
  const isKnown = findCondition(vm.status?.conditions, disruptionTarget)?.status === 'True'
  if (exit === undefined || !isTerminated || isKnown || vm.metadata.deletionTimestamp !== undefined) return []
  const message = 'the launcher pod was deleted, evicted or drained from its node'
  return [{ type: disruptionTarget, status: 'True', reason: podTerminated, message }]
}

/** A new generation of a VM differs in its media or its attached volumes; nothing else of its spec can change. */
export const generationOf = ({ metadata }: VirtualMachine): number => metadata.generation ?? 1

function synchronization(
  vm: VirtualMachine,
  report: DomainReport,
  misbehavior: string | undefined,
  attached: readonly AttachedVolumeStatus[],
): Asserted {
  const type = 'Synchronized'
  if (misbehavior !== undefined) return { type, status: 'Unknown', reason: 'LauncherMisbehaving', message: misbehavior }
  if (report.phase === 'Defined') return { type, status: 'Unknown', reason: 'GuestStarting', message: '' }
  const { generation, mediaFailure } = report
  if (generation !== undefined && generation < generationOf(vm) && vm.metadata.deletionTimestamp === undefined) {
    return { type, status: 'False', reason: 'ChangingMedia', message: '' }
  }
  if (mediaFailure !== undefined) return { type, status: 'False', reason: 'MediumRefused', message: mediaFailure }
  const troubles = troublesOf(attached)
  if (troubles.length > 0)
    return { type, status: 'False', reason: 'VolumesNotAttached', message: firstTexts(troubles, 5, (text) => text) }
  if (attached.some(({ phase }) => phase !== 'Attached'))
    return { type, status: 'False', reason: 'ChangingVolumes', message: '' }
  return { type, status: 'True', reason: 'DomainDefined', message: '' }
}

/** A guest that runs may not serve yet: the probes of the VM, if it has any, decide. */
function readinessOf(vm: VirtualMachine, report: DomainReport): Asserted {
  const ready = readiness(report)
  const unready = ready.status === 'True' ? unreadinessOf(vm) : undefined
  return unready === undefined ? ready : { type: 'Ready', status: 'False', ...unready }
}

function readiness(report: DomainReport): Asserted {
  const not = (reason: string, message: string): Asserted => ({ type: 'Ready', status: 'False', reason, message })
  if (report.exit !== undefined) return not('GuestStopped', report.message ?? `the guest ended: ${report.reason}`)
  switch (report.phase) {
    case 'Running':
      if (report.unresponsiveSince !== undefined) return not('QEMUUnresponsive', unresponsive(report.unresponsiveSince))
      if (report.lostFilesystems !== undefined) return not('FilesystemLost', lost(report.lostFilesystems))
      return { type: 'Ready', status: 'True', reason: 'GuestRunning', message: '' }
    case 'Paused':
      return not('GuestPaused', report.message ?? `the guest is paused: ${report.reason}`)
    case 'ShuttingDown':
      return not(
        'ShuttingDown',
        report.deadline === undefined ? '' : `the guest has until ${report.deadline} to power off`,
      )
    case 'Defined':
      if (report.reason === fillingDisk) return not('FillingDisk', report.message ?? 'a disk is being filled')
      if (report.reason === downloadFailed) return not('DownloadFailed', report.message ?? 'a download failed')
      if (report.reason === noSpace) return not('NoSpace', report.message ?? 'no space is left for a disk')
      return not('GuestStarting', report.message ?? 'the guest is being started')
    default:
      return not('GuestNotRunning', report.message ?? '')
  }
}

const lost = (tags: readonly string[]): string => {
  const named = firstTexts(tags, 5, (tag) => JSON.stringify(tag))
  return `virtiofsd has ended, and the guest waits for its file systems without end: ${named}. Delete the VM, or restart its config, to share them again`
}

const unresponsive = (since: string): string =>
  `QEMU has not responded on its monitor since ${since}; the guest may hang. It is not restarted: delete the VM to end it`

const driftMessage = (drifts: NonNullable<DomainReport['specDrift']>): string =>
  firstTexts(drifts, mostShownDrifts, ({ field, spec, libvirt }) =>
    isSecret(field) ? `${field} differs` : `${field}: ${valueText(spec)} became ${valueText(libvirt)}`,
  )

const valueText = (value: Json | undefined): string =>
  value === undefined ? 'nothing' : shorten(JSON.stringify(withoutSecrets(value)), 80)

/** A domain that is stored already stays the digest that the cached VM has of it, and so counts as unchanged. */
function newDomain(
  { domain: stored }: VirtualMachineStatus,
  domain: JsonObject,
): VirtualMachineStatus['domain'] & object {
  return stored !== undefined && isDeepStrictEqual(stored, digestOf(domain)) ? stored : domain
}

function domainOf(report: DomainReport): JsonObject | undefined {
  const { domain } = report
  if (domain === undefined) return undefined
  // A character that is replaced takes up to three times the space.
  const shown = shownDomain(domain)
  return isLarge(shown) ? undefined : shown
}

/**
 * One for each interface of the spec that the launcher reports, in the order of the report: how many a VM has, and in
 * which networks, is not the launcher's to say.
 */
function interfacesOf(
  { metadata, spec: { domain: given, taps = [] }, status: { interfaces: before = [] } = {} }: VirtualMachine,
  domain: JsonObject,
  ips: readonly string[],
  tapIPs: TapIPs,
): InterfaceStatus[] {
  const interfaces = objectAt(domain, 'devices')?.['interfaces']
  if (!Array.isArray(interfaces)) return []
  const expected = Map.groupBy((given.devices?.interfaces ?? []).slice(0, defaultMaxItems), keyOf)
  return interfaces.flatMap((one) => {
    const target = { dev: textAt(objectAt(one, 'target'), 'dev') }
    const address = textAt(objectAt(one, 'mac'), 'address')
    const found = expected.get(keyOf({ mac: { address }, target }))?.shift() ?? expected.get(keyOf({ target }))?.shift()
    if (found === undefined) return []
    const name = shownAt(objectAt(one, 'alias'), 'name')
    const mac = shownAt(objectAt(one, 'mac'), 'address')
    const tap = taps.find((each) => each.dev === found.target?.dev)
    const identity = { ...(name === undefined ? {} : { name }), ...(mac === undefined ? {} : { mac }) }
    if (tap === undefined || podPlugins.includes(tap.plugin)) return [{ ...identity, ...inPod(one, tap, ips) }]
    // A handler that was restarted knows them from the status.
    const known = tapIPs.get(tap.dev) ?? before.find((each) => each.mac !== undefined && each.mac === mac)?.ips ?? []
    return [
      {
        ...identity,
        ...(tap.network === undefined ? {} : inNetwork(tap, tap.network, metadata.namespace)),
        ...(known.length === 0 ? {} : { ips: known }),
      },
    ]
  })
}

interface Identified {
  readonly mac?: { readonly address?: string | undefined }
  readonly target?: { readonly dev?: string | undefined }
}

/** A persisted VM has a MAC address for each interface. */
const keyOf = ({ mac, target }: Identified): string => macOf(mac?.address) ?? target?.dev ?? ''

/** Longer than libvirt's aliases and MAC addresses. */
const maxIdentity = 64

/** A launcher that a guest has taken over reports what it likes. */
function shownAt(value: JsonObject | undefined, key: string): string | undefined {
  const text = textAt(value, key)
  return text === undefined ? undefined : shownLine(text.slice(0, maxIdentity))
}

const agentStates = {
  connected: { status: 'True', reason: 'AgentConnected', message: '' },
  disconnected: {
    status: 'False',
    reason: 'AgentDisconnected',
    message: 'no agent in the guest has opened its channel',
  },
  unresponsive: { status: 'False', reason: 'AgentUnresponsive', message: 'the agent in the guest does not answer' },
} as const

function agentOf(vm: VirtualMachine, { agent, exit }: DomainReport): Asserted[] {
  const hasAgent = agent !== undefined || findCondition(vm.status?.conditions, agentCondition) !== undefined
  if (exit !== undefined) return hasAgent ? [{ type: agentCondition, ...agentStates.disconnected }] : []
  return agent === undefined ? [] : [{ type: agentCondition, ...agentStates[agent] }]
}

/** Nothing if the agent reports nothing, also if it did before. */
function guestOf({ guest, exit }: DomainReport): Pick<VirtualMachineStatus, 'guest'> {
  if (guest === undefined || exit !== undefined) return {}
  const { interfaces: _interfaces, ...rest } = guest
  return Object.keys(rest).length === 0 ? {} : { guest: rest }
}

/** By MAC address: the guest names its interfaces as it likes. */
function inGuest(one: InterfaceStatus, { guest, exit }: DomainReport): InterfaceStatus {
  if (exit !== undefined) return one
  const guestIPs = guest?.interfaces?.find(({ mac }) => mac === one.mac?.toLowerCase())?.ips
  return guestIPs === undefined ? one : { ...one, guestIPs, infoSource: ['domain', 'guest-agent'] }
}

/** Every runtime and CNI calls the interface of a pod so. */
const podInterface = 'eth0'

/** Where clients reach the guest: at the addresses of its pod, whatever the guest itself configures. */
function inPod(
  one: Json | undefined,
  tap: Tap | undefined,
  podIPs: readonly string[],
): Pick<InterfaceStatus, 'podInterface' | 'ips'> {
  if (tap === undefined && textAt(objectAt(one, 'backend'), 'type') !== 'passt') return {}
  const ips = tap?.plugin === natPlugin ? podIPs.filter((ip) => isIPv4(ip)) : podIPs
  return { podInterface, ...(ips.length === 0 ? {} : { ips }) }
}

/** Unless IPAM gave it addresses, they are those that the guest has configured, which only the guest can tell. */
function inNetwork(
  { dev }: Tap,
  network: string,
  ofVm: string | undefined,
): Pick<InterfaceStatus, 'network' | 'podInterface'> {
  const { namespace, name } = networkRef(network, ofVm)
  return { network: `${namespace}/${name}`, podInterface: podInterfaceOf(dev) }
}

function objectAt(value: Json | undefined, key: string): JsonObject | undefined {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) return undefined
  const found = value[key]
  return typeof found === 'object' && found !== null && !Array.isArray(found) ? found : undefined
}

function textAt(value: JsonObject | undefined, key: string): string | undefined {
  const found = value?.[key]
  return typeof found === 'string' ? found : undefined
}

function capital(word: string): string {
  return word === '' ? 'Unknown' : word.charAt(0).toUpperCase() + word.slice(1)
}
