import { isDeepStrictEqual } from 'node:util'
import type { MachineStatus, Phase, VirtualMachine } from '../api/machine.ts'
import type { Condition } from '../api/object.ts'
import type { DomainReport, Json, JsonObject } from '../runtime/launcher-api.ts'
import { setCondition } from '../runtime/condition.ts'
import { enterPhase } from '../runtime/phase-times.ts'
import { digestOf } from './slim-machine.ts'

/**
 * The most of a domain that is stored. One of 100 devices is 60 KiB and 4,000 values. etcd takes 1.5 MiB an object, and the handler keeps the
 * domains of all VMs of its node, where the smallest value takes 60 bytes.
 */
const maxDomainBytes = 256 * 1024
const maxDomainValues = 8000

/** What the handler writes of a VM whose launcher answered. */
export function statusOf(
  machine: VirtualMachine,
  report: DomainReport,
  podIP: string | undefined,
  now: Date,
  misbehaviour?: string,
): MachineStatus {
  const before = machine.status ?? {}
  const domain = domainOf(report)
  const { reason: _reason, message: _message, ...rest } = before
  const status: MachineStatus = {
    // What runs has nothing to excuse: a reason is of the phase before.
    ...(isAlive(report) ? rest : before),
    ...phaseOf(report),
    ...(podIP === undefined ? {} : { podIP }),
    ...(domain === undefined ? {} : { domain: newDomain(before, domain), interfaces: interfacesOf(domain) }),
  }
  return conclude(before, status, conditionsOf(report, misbehaviour), machine, now)
}

/** What the handler writes of a VM that its launcher refused to run; `message` is libvirt's own. */
export function failedStatus(machine: VirtualMachine, reason: string, message: string, now: Date): MachineStatus {
  const before = machine.status ?? {}
  const conditions: Asserted[] = [
    { type: 'Synchronized', status: 'False', reason, message },
    { type: 'Ready', status: 'False', reason, message },
  ]
  return conclude(before, { ...before, phase: 'Failed', reason, message }, conditions, machine, now)
}

/** What the handler writes of a VM whose launcher has not answered for long: the phase stays, for nothing is known. */
export function silentStatus(machine: VirtualMachine, reason: string, message: string, now: Date): MachineStatus {
  const before = machine.status ?? {}
  const conditions: Asserted[] = [
    { type: 'Synchronized', status: 'Unknown', reason, message },
    { type: 'Ready', status: 'Unknown', reason, message },
  ]
  return conclude(before, before, conditions, machine, now)
}

/** The API server counts a deletion as a new generation; that it was seen is told by what follows, and no write of its own. */
export function isChanged(machine: VirtualMachine, status: MachineStatus): boolean {
  const before = machine.status ?? {}
  if (machine.metadata.deletionTimestamp === undefined) return !isDeepStrictEqual(before, status)
  return !isDeepStrictEqual(withoutGeneration(before), withoutGeneration(status))
}

function withoutGeneration(status: MachineStatus): object {
  return { ...status, conditions: status.conditions?.map((condition) => ({ ...condition, observedGeneration: 0 })) }
}

type Asserted = Omit<Condition, 'lastTransitionTime' | 'observedGeneration'>

function conclude(
  before: MachineStatus,
  status: MachineStatus,
  asserted: readonly Asserted[],
  machine: VirtualMachine,
  now: Date,
): MachineStatus {
  const observedGeneration = machine.metadata.generation ?? 1
  const conditions = asserted.reduce<readonly Condition[]>(
    (all, condition) => setCondition(all, { ...condition, observedGeneration }, now.toISOString()),
    before.conditions ?? [],
  )
  const { phase } = status
  if (phase === undefined || phase === before.phase) return { ...status, conditions }
  const phaseTransitionTimestamps = enterPhase(before.phaseTransitionTimestamps ?? [], phase, now.toISOString())
  return { ...status, conditions, phaseTransitionTimestamps }
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

function conditionsOf(report: DomainReport, misbehaviour: string | undefined): Asserted[] {
  const drifts = report.specDrift ?? []
  const drift: Asserted[] =
    drifts.length === 0
      ? []
      : [{ type: 'SpecDrift', status: 'True', reason: 'LibvirtChangedSpec', message: driftMessage(drifts) }]
  return [readiness(report), synchronization(report, misbehaviour), ...drift]
}

function synchronization(report: DomainReport, misbehaviour: string | undefined): Asserted {
  const type = 'Synchronized'
  if (misbehaviour !== undefined)
    return { type, status: 'Unknown', reason: 'LauncherMisbehaving', message: misbehaviour }
  if (report.phase === 'Defined') return { type, status: 'Unknown', reason: 'GuestStarting', message: '' }
  return { type, status: 'True', reason: 'DomainDefined', message: '' }
}

function readiness(report: DomainReport): Asserted {
  const not = (reason: string, message: string): Asserted => ({ type: 'Ready', status: 'False', reason, message })
  if (report.exit !== undefined) return not('GuestStopped', report.message ?? `the guest ended: ${report.reason}`)
  switch (report.phase) {
    case 'Running':
      return { type: 'Ready', status: 'True', reason: 'GuestRunning', message: '' }
    case 'Paused':
      return not('GuestPaused', report.message ?? `the guest is paused: ${report.reason}`)
    case 'ShuttingDown':
      return not(
        'ShuttingDown',
        report.deadline === undefined ? '' : `the guest has until ${report.deadline} to power off`,
      )
    case 'Defined':
      return not('GuestStarting', report.message ?? 'the guest is being started')
    default:
      return not('GuestNotRunning', report.message ?? '')
  }
}

function driftMessage(drifts: NonNullable<DomainReport['specDrift']>): string {
  const shown = drifts
    .slice(0, 5)
    .map(({ field, spec, libvirt }) => `${field}: ${shorten(spec)} became ${shorten(libvirt)}`)
  const rest = drifts.length - shown.length
  return [...shown, ...(rest > 0 ? [`and ${rest} more`] : [])].join('; ')
}

function shorten(value: Json | undefined): string {
  const text = value === undefined ? 'nothing' : JSON.stringify(value)
  return text.length > 80 ? `${text.slice(0, 79)}…` : text
}

/** A domain that is stored already stays what stands for it in a slim VM, so that it is no change. */
function newDomain({ domain: stored }: MachineStatus, domain: JsonObject): MachineStatus['domain'] & object {
  return stored !== undefined && isDeepStrictEqual(stored, digestOf(domain)) ? stored : domain
}

function domainOf(report: DomainReport): JsonObject | undefined {
  const { domain } = report
  if (domain === undefined || Buffer.byteLength(JSON.stringify(domain)) > maxDomainBytes) return undefined
  return countValues(domain) > maxDomainValues ? undefined : domain
}

/** Objects, lists and scalars, itself included. */
export function countValues(value: unknown): number {
  if (typeof value !== 'object' || value === null) return 1
  return Object.values(value).reduce<number>((sum, one: unknown) => sum + countValues(one), 1)
}

function interfacesOf(domain: JsonObject): { name?: string; mac?: string }[] {
  const interfaces = objectAt(domain, 'devices')?.['interfaces']
  if (!Array.isArray(interfaces)) return []
  return interfaces.map((one) => {
    const name = textAt(objectAt(one, 'alias'), 'name')
    const mac = textAt(objectAt(one, 'mac'), 'address')
    return { ...(name === undefined ? {} : { name }), ...(mac === undefined ? {} : { mac }) }
  })
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
