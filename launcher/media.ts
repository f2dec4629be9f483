import type { Domain } from '../api/domain/domain.ts'
import type { Clock } from '../runtime/clock.ts'
import type { Logger } from '../runtime/log.ts'
import type { DomainRef } from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { Refused } from './refused.ts'

export type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]

interface MediaOptions {
  /** Changes the medium of the drive that has the target of this disk, which is empty without a source. */
  readonly update: (dom: DomainRef, drive: Disk) => Promise<void>
  /** Whether the tray of the drive with this target is open. */
  readonly isOpen: (dom: DomainRef, target: string) => Promise<boolean>
  readonly clock: Clock
  readonly log: Logger
  readonly onChange: () => void
}

/** A guest that has locked its tray, as while it has mounted the CD, is asked again at this interval. */
const retryMs = 15_000

/**
 * The media in the drives of the running guest. A later generation of the VM can have others. libvirt opens the tray,
 * which the guest can refuse, and closes it with the other medium.
 */
export class Media {
  readonly #options: MediaOptions
  /** The disks that libvirt has, with files in place of volumes; undefined if that is not known. */
  #disks: readonly (Disk | undefined)[] = []
  /** The generation of the VM whose media were tried last. */
  #generation: number | undefined
  #failure: string | undefined
  #wanted: { readonly generation: number; readonly render: () => readonly Disk[] } | undefined
  #isBusy = false
  #cancelRetry = () => {}

  constructor(options: MediaOptions) {
    this.#options = options
  }

  get report(): { readonly generation?: number; readonly mediaFailure?: string } {
    return {
      ...(this.#generation === undefined ? {} : { generation: this.#generation }),
      ...(this.#failure === undefined ? {} : { mediaFailure: this.#failure }),
    }
  }

  /** The guest was started with these disks. */
  start(generation: number, disks: readonly Disk[]): void {
    this.#generation = generation
    this.#disks = disks
  }

  /** Whether a generation is later than what was requested before. */
  isLater(generation: number): boolean {
    return generation > (this.#wanted?.generation ?? this.#generation ?? Infinity)
  }

  /**
   * Requests the media of a later generation. Does not wait; the report has the outcome.
   * @param render returns its disks. @throws Refused
   */
  change(dom: DomainRef, generation: number, render: () => readonly Disk[]): void {
    this.#wanted = { generation, render }
    this.#cancelRetry()
    void this.#apply(dom)
  }

  async #apply(dom: DomainRef): Promise<void> {
    const { clock, log, onChange } = this.#options
    const wanted = this.#wanted
    if (this.#isBusy || wanted === undefined) return
    this.#isBusy = true
    const failures: string[] = []
    try {
      for (const [index, drive] of wanted.render().entries()) {
        const failure = await this.#update(dom, drive, index)
        if (failure !== undefined) failures.push(failure)
      }
      this.#generation = wanted.generation
      this.#failure = failures.length === 0 ? undefined : failures.join('; ')
    } catch (error) {
      log.warn({ err: error }, 'could not change media')
      failures.push(error instanceof Error ? error.message : String(error))
      // Otherwise, libvirtd was lost, and nothing is known.
      if (error instanceof Refused) [this.#generation, this.#failure] = [wanted.generation, error.message]
    }
    this.#isBusy = false
    onChange()
    if (this.#wanted !== wanted) return this.#apply(dom)
    if (failures.length === 0) this.#wanted = undefined
    else this.#cancelRetry = clock.after(retryMs, () => void this.#apply(dom))
  }

  /** Returns why libvirt refused it. */
  async #update(dom: DomainRef, drive: Disk, index: number): Promise<string | undefined> {
    if (drive.device !== 'cdrom' || JSON.stringify(drive) === JSON.stringify(this.#disks[index])) return undefined
    const disk = drive.target?.dev ?? ''
    const { update, isOpen, log } = this.#options
    const isKnown = this.#disks[index] !== undefined
    // If it fails, the medium can have been changed although the response was lost, or only taken out: where the other
    // one cannot be opened, as while another VM writes to it, libvirt leaves the drive empty with an open tray.
    this.#disks = this.#disks.with(index, undefined)
    try {
      // libvirt states the medium that it has taken out, and would ignore the request to insert that.
      if (!isKnown && drive.source !== undefined && (await isOpen(dom, disk))) await update(dom, emptied(drive))
      await update(dom, drive)
    } catch (error) {
      if (error instanceof LibvirtError) return `${disk}: ${error.message}`
      throw error
    }
    this.#disks = this.#disks.with(index, drive)
    log.info({ disk, isEmpty: drive.source === undefined }, 'changed the medium')
    return undefined
  }
}

function emptied(drive: Disk): Disk {
  const { source: _, ...empty } = drive
  return empty
}
