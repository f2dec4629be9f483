import type { Clock } from '../runtime/clock.ts'
import { InvalidLauncherResponse, type DomainReport } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { CachedVm } from './slim-vm.ts'
import { generationOf } from './status.ts'
import type { Round } from './tracked.ts'

type Vm = Persisted<CachedVm>

/** The first version of a launcher that accepts `PUT /capabilities`. */
const withCapabilities = 2

interface SendingOptions {
  /** libvirtd's cache for VMs of this type, as JSON; undefined while there is none. */
  readonly readCapabilities: (type: 'kvm' | 'qemu') => Promise<string | undefined>
  /** Queues a round of the VM later. */
  readonly queueRound: (key: string, afterMs: number) => void
  readonly log: Logger
  readonly clock: Clock
}

/** Hands VMs to their launchers. */
export interface Sending {
  /** Whether its launcher accepted this generation too recently to be sent it again; another round follows then. */
  mustWait(round: Round, vm: Vm): boolean
  /** It only saves time, so a failure is not one of the VM. */
  sendCapabilities(round: Round, vm: Vm): Promise<void>
  /** A launcher that accepts the VM and still waits for one would be handed it for ever. */
  start(round: Round, whole: Vm): Promise<DomainReport>
  changeMedia(round: Round, whole: Vm): Promise<void>
}

export function createSending({ readCapabilities, queueRound, log, clock }: SendingOptions): Sending {
  function noteAccepted({ entry }: Round, vm: Vm): void {
    const sendAgainAtMs = clock.monotonic() + entry.sending.next()
    entry.accepted = { generation: generationOf(vm), sendAgainAtMs }
  }

  return {
    mustWait({ key, entry: { accepted } }, vm) {
      if (accepted?.generation !== generationOf(vm)) return false
      const waitMs = accepted.sendAgainAtMs - clock.monotonic()
      if (waitMs > 0) queueRound(key, waitMs)
      return waitMs > 0
    },

    async sendCapabilities({ key, entry, launcher }, { spec }) {
      if (entry.launcherVersion < withCapabilities) return
      try {
        const text = await readCapabilities(spec.domain.type === 'kvm' ? 'kvm' : 'qemu')
        if (text !== undefined) await launcher.putCapabilities(text)
      } catch (error) {
        log.debug({ vm: key, err: error }, 'could not send the capabilities of the node')
      }
    },

    async start(round, whole) {
      const report = await round.launcher.put(whole)
      if (report.phase === 'Waiting') throw new InvalidLauncherResponse('it accepted the VM, but still waits for one')
      noteAccepted(round, whole)
      return report
    },

    async changeMedia(round, whole) {
      await round.launcher.put(whole)
      noteAccepted(round, whole)
    },
  }
}
