import type { Clock } from '../runtime/clock.ts'
import { InvalidLauncherResponse, type DomainReport } from '../runtime/launcher-api.ts'
import type { LimitedLog } from '../runtime/limited-log.ts'
import type { Persisted } from '../runtime/resource.ts'
import { attachmentPodsOf, noSockets, type AttachmentSockets } from './attachment.ts'
import { placeSockets, type ServingPods } from './attachment-sockets.ts'
import { countValues } from './domain-size.ts'
import { LauncherAbsent, LauncherRefusal, LauncherUnreachable } from './launcher.ts'
import type { Observation } from './plan.ts'
import { bytesPerValue, type CachedVm } from './slim-vm.ts'
import { isAlive } from './status.ts'
import type { Step } from './steps.ts'
import { since, type Round, type Tracked } from './tracked.ts'
import { tapIPsOf } from './vm-taps.ts'

type Vm = Persisted<CachedVm>

/** What the handler finds on the node before it asks a launcher. An error matters only if the launcher responds. */
export type Found =
  | { readonly podIPs: readonly string[]; readonly sockets: AttachmentSockets }
  | { readonly error: unknown }

export interface Question {
  readonly found: Found
  readonly request: () => Promise<DomainReport>
  readonly onReport?: (report: DomainReport) => void
}

interface ObserverOptions {
  /** Of a pod, once it has some. */
  readonly addressesOf: (podUID: string) => Promise<readonly string[]>
  readonly attachments: ServingPods
  /** What is to be done after an observation. */
  readonly plan: (round: Round, vm: Vm, observation: Observation) => readonly Step[]
  readonly logFailure: (key: string, error: unknown, message: string) => void
  readonly limitedLog: LimitedLog
  readonly clock: Clock
}

export interface Observer {
  /** What is known of a launcher beside its response. */
  find(round: Round, vm: Vm): Promise<Found>
  /**
   * What is to be done after the launcher's response. Nothing is awaited while that is in memory: 256 of them, at 2 MB
   * with the status that follows from each, are too many.
   */
  observe(round: Round, vm: Vm, question: Question): Promise<readonly Step[]>
  /**
   * The failure of a request to be planned for, if there was one.
   * @param refusable what the launcher can refuse without a change: the guest has just ended, or is being started, and
   *   an event of the launcher follows
   */
  failureOf(round: Round, request: () => Promise<void>, refusable?: string): Promise<Observation | undefined>
}

/** Makes observations of what launchers answer, and of their failures. */
export function createObserver(options: ObserverOptions): Observer {
  const { addressesOf, attachments, plan, logFailure, limitedLog, clock } = options

  /** @throws any error that is not the launcher's */
  function observationOf(entry: Tracked, error: unknown): Observation {
    if (error instanceof LauncherAbsent) {
      entry.absentSince ??= clock.monotonic()
      return { kind: 'absent', absentForMs: since(entry.absentSince, clock) }
    }
    entry.absentSince = undefined
    entry.silentSince ??= clock.monotonic()
    const silentForMs = since(entry.silentSince, clock)
    if (error instanceof LauncherRefusal) {
      const { reason, message } = error
      return { kind: 'refused', reason, message, silentForMs, launcherVersion: entry.launcherVersion }
    }
    if (error instanceof InvalidLauncherResponse) return { kind: 'misbehaving', message: error.message, silentForMs }
    if (error instanceof LauncherUnreachable) return { kind: 'unreachable', message: error.message, silentForMs }
    throw error
  }

  return {
    async find({ podUID }, vm) {
      const hasPods = attachmentPodsOf(vm).length > 0
      try {
        return {
          podIPs: await addressesOf(podUID),
          sockets: hasPods ? await placeSockets(attachments, { vm, podUID, limitedLog }) : noSockets,
        }
      } catch (error) {
        return { error }
      }
    },

    async observe(round, vm, { found, request, onReport }) {
      const { entry } = round
      try {
        const report = await request()
        entry.limits.responses.take(countValues(report) * bytesPerValue)
        mustBeAbout(vm, report)
        entry.absentSince = undefined
        entry.launcherVersion = report.version ?? 0
        // A launcher that waits for its VM can still refuse it for long.
        if (report.phase !== 'Waiting') entry.silentSince = undefined
        entry.startingSince = report.phase === 'Defined' ? (entry.startingSince ?? clock.monotonic()) : undefined
        if ('error' in found) throw found.error
        onReport?.(report)
        const { podIPs, sockets } = found
        return plan(round, vm, {
          kind: 'report',
          report,
          startingForMs: since(entry.startingSince, clock),
          podIPs,
          tapIPs: tapIPsOf(entry.taps),
          ...(entry.misbehavior === undefined ? {} : { misbehavior: entry.misbehavior }),
          ...(isAlive(report) ? { sockets } : {}),
        })
      } catch (error) {
        return plan(round, vm, observationOf(entry, error))
      }
    },

    async failureOf({ key, entry }, request, refusable) {
      try {
        await request()
        return undefined
      } catch (error) {
        if (refusable === undefined || !(error instanceof LauncherRefusal)) return observationOf(entry, error)
        logFailure(key, error, `the launcher refused ${refusable}`)
        return undefined
      }
    },
  }
}

function mustBeAbout({ metadata: { uid } }: Vm, { vmUID, phase }: DomainReport): void {
  if (vmUID === uid || (vmUID === '' && phase === 'Waiting')) return
  throw new InvalidLauncherResponse('its report is about another VirtualMachine')
}
