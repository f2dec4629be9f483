import { shorten } from '../api/shorten.ts'
import { attachedAliasPrefix, serialOf, type AttachedPhase } from '../api/attached-volume.ts'
import type { Clock } from '../runtime/clock.ts'
import type { VolumeReport, VolumeRequest } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import type { DomainRef } from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import type { GuestDisk } from './libvirt/guest-info.ts'

interface AttachedVolumesOptions {
  /** Attaches a disk to the running guest. @throws LibvirtError */
  readonly attach: (dom: DomainRef, xml: string) => Promise<void>
  /** Asks the guest to release the device with this alias. @throws LibvirtError */
  readonly detach: (dom: DomainRef, alias: string) => Promise<void>
  /** Whether the running guest has a device with this alias, as far as libvirt knows. */
  readonly hasDevice: (dom: DomainRef, alias: string) => Promise<boolean>
  /** Whether it has one of which libvirt may not know. */
  readonly isInQemu: (dom: DomainRef, alias: string) => Promise<boolean>
  /**
   * Where the guest has mounted a disk; undefined if it has no agent.
   * @throws AgentBusy if the agent does not tell
   */
  readonly readMounts: (dom: DomainRef, disk: GuestDisk) => Promise<readonly string[] | undefined>
  /** The sockets of the pods that serve the claims. */
  readonly sockets: AttachedSockets
  readonly clock: Clock
  readonly log: Logger
  readonly onChange: () => void
}

export interface AttachedSockets {
  /** The path that QEMU connects to for a volume, also again. */
  pathOf(name: string): string
  /** Makes that path lead to the socket of a pod. Returns whether it is there. */
  connect(name: string, podUID: string): Promise<boolean>
  /** Removes the path. The pod can still serve the claim, and its socket exists only once: it stays. */
  remove(name: string): Promise<void>
  /** Removes the socket of a pod that has ended. */
  forget(podUID: string): Promise<void>
}

/** The agent is there and does not answer now: the guest is frozen, or busy. */
export class AgentBusy extends Error {
  override name = 'AgentBusy'
}

/** A volume that the guest has, or may have. */
interface Current {
  request: VolumeRequest
  phase: AttachedPhase
  reason?: string | undefined
  message?: string | undefined
  /** The guest has been asked to release it, which it can do at any time. */
  isUnplugging: boolean
  /** The answer to an attempt was lost. If libvirtd ended during that, QEMU can have the disk and libvirt not. */
  isUncertain: boolean
}

/** The first and the longest wait before what failed is tried again. */
const retryMs = { first: 1000, longest: 30_000 }
/** libvirt's and QEMU's messages are shorter. */
const longestMessage = 512

/**
 * How long QEMU waits for the pod that serves a claim, whose container may have been started again or whose pod replaced:
 * meanwhile the guest waits too. Afterwards, its operations fail.
 */
const reconnectSeconds = 120

export const aliasOf = (name: string): string => `${attachedAliasPrefix}${name}`

/**
 * The disks that the guest gets and loses while it runs. What libvirt has is read from the live domain, so that it does
 * not matter when libvirtd, or a request to it, was lost.
 */
export class AttachedVolumes {
  readonly #options: AttachedVolumesOptions
  #wanted: ReadonlyMap<string, VolumeRequest> = new Map()
  /** Those that could not be attached, and why. */
  readonly #failures = new Map<string, { readonly reason: string; readonly message: string }>()
  readonly #current = new Map<string, Current>()
  #isUsed = false
  #isBusy = false
  #isChanged = false
  #waitMs = retryMs.first
  #cancelRetry = () => {}

  constructor(options: AttachedVolumesOptions) {
    this.#options = options
  }

  get report(): { readonly volumes?: VolumeReport[] } {
    if (!this.#isUsed) return {}
    const waiting = [...this.#wanted.values()].filter(({ name }) => !this.#current.has(name))
    return {
      volumes: [
        ...[...this.#current.values()].map(({ request, phase, reason, message }) => ({
          ...reportOf(request),
          phase,
          ...(reason === undefined ? {} : { reason }),
          ...(message === undefined ? {} : { message }),
        })),
        ...waiting.map((request) => {
          const failure = this.#failures.get(request.name)
          return { ...reportOf(request), phase: failure ? ('Failed' as const) : ('Attaching' as const), ...failure }
        }),
      ],
    }
  }

  /** Requests exactly these volumes. Does not wait; the report has the outcome. */
  request(dom: DomainRef, volumes: readonly VolumeRequest[]): void {
    this.#isUsed = true
    this.#wanted = new Map(volumes.map((one) => [one.name, one]))
    this.#waitMs = retryMs.first
    void this.#apply(dom)
  }

  async #apply(dom: DomainRef): Promise<void> {
    this.#isChanged = true
    if (this.#isBusy) return
    this.#isBusy = true
    this.#cancelRetry()
    let isDone = true
    while (this.#isChanged) {
      this.#isChanged = false
      isDone = await this.#applyOnce(dom)
      this.#options.onChange()
    }
    this.#isBusy = false
    if (isDone) return
    this.#cancelRetry = this.#options.clock.after(this.#waitMs, () => void this.#apply(dom))
    this.#waitMs = Math.min(2 * this.#waitMs, retryMs.longest)
  }

  /** Returns whether nothing is left to do. */
  async #applyOnce(dom: DomainRef): Promise<boolean> {
    for (const name of this.#failures.keys()) if (!this.#wanted.has(name)) this.#failures.delete(name)
    let isDone = true
    /** One volume delays no other. */
    const attempt = async (name: string, change: Promise<boolean>): Promise<void> => {
      const isChanged = await change.catch((error: unknown) => {
        this.#options.log.warn({ volume: name, err: error }, 'could not attach or detach a volume')
        return false
      })
      isDone &&= isChanged
    }
    for (const current of this.#current.values()) {
      const { name } = current.request
      const wanted = this.#wanted.get(name)
      const isKept = wanted !== undefined && !current.isUnplugging && isSameDisk(wanted, current.request)
      if (!isKept) await attempt(name, this.#detach(dom, current))
    }
    for (const request of this.#wanted.values()) {
      const current = this.#current.get(request.name)
      if (current === undefined || isSameDisk(request, current.request))
        await attempt(request.name, this.#attach(dom, request))
    }
    return isDone
  }

  /** Its pod may be another one: QEMU connects again, to the new socket. */
  async #attach(dom: DomainRef, request: VolumeRequest): Promise<boolean> {
    const { attach, hasDevice, isInQemu, sockets, log } = this.#options
    const { name, podUID } = request
    const before = this.#current.get(name)
    if (before?.isUnplugging === true) return false
    const isAttached = before !== undefined && before.phase !== 'Attaching' && !before.isUncertain
    if (isAttached) Object.assign(before, { phase: 'Attached', reason: undefined, message: undefined })
    if (isAttached && before.request.podUID === podUID) return true
    if (!(await sockets.connect(name, podUID))) return false
    const isUncertain = before?.isUncertain ?? false
    const phase = before?.phase === 'Attached' ? 'Attached' : 'Attaching'
    const current: Current = { request, phase, isUnplugging: false, isUncertain }
    // Before libvirt is asked: it can attach the disk although its answer is lost.
    this.#current.set(name, current)
    if (isAttached) {
      log.info({ volume: name, podUID }, 'another pod serves the volume')
      await sockets.forget(before.request.podUID)
      return true
    }
    const alias = aliasOf(name)
    try {
      const isKnown = await hasDevice(dom, alias)
      if (isKnown || !isUncertain || !(await isInQemu(dom, alias))) {
        if (!isKnown) {
          // Of one that was uncertain, the guest has released the disk.
          current.phase = 'Attaching'
          await attach(dom, diskXml(request, sockets.pathOf(name)))
        }
        current.isUncertain = false
      }
    } catch (error) {
      if (!(error instanceof LibvirtError)) {
        current.isUncertain = true
        throw error
      }
      const failure = {
        reason: 'AttachRefused',
        message: shorten(error.message, longestMessage) + this.#lostDiskIn(error),
      }
      // An earlier attempt, whose answer was lost, may still succeed.
      if (before !== undefined) Object.assign(current, failure)
      else {
        this.#current.delete(name)
        this.#failures.set(name, failure)
      }
      return false
    }
    this.#failures.delete(name)
    if (current.phase !== 'Attached') log.info({ volume: name, target: request.dev }, 'attached a volume')
    current.phase = 'Attached'
    // libvirt reports nothing of a disk that only QEMU knows, not even that the guest has released it.
    return !current.isUncertain
  }

  /** libvirt gives out the address of a disk that only QEMU knows, and QEMU names that disk as it refuses another one. */
  #lostDiskIn({ message }: LibvirtError): string {
    const words = message.split(/[^\w-]+/)
    const lost = [...this.#current.values()].find(
      ({ request: { name }, isUncertain }) => isUncertain && words.includes(aliasOf(name)),
    )
    return lost === undefined
      ? ''
      : `; libvirtd ended while volume "${lost.request.name}" was attached, and gives out its address again: others can be attached there after the next start of the VM`
  }

  async #detach(dom: DomainRef, current: Current): Promise<boolean> {
    const { detach, hasDevice, isInQemu, sockets, log } = this.#options
    const { name } = current.request
    const alias = aliasOf(name)
    current.phase = 'Detaching'
    const wait = (reason: string, message: string): boolean => {
      Object.assign(current, { reason, message: shorten(message, longestMessage) })
      return false
    }
    if (!current.isUnplugging) {
      // By its serial number, the guest's agent tells the disk from others.
      const inUse = await this.#useOf(dom, { ...current.request, serial: serialOf(current.request) })
      if (inUse !== undefined) return wait('VolumeInUse', inUse)
    }
    let refusal: string | undefined
    if (await hasDevice(dom, alias)) {
      const wasUnplugging = current.isUnplugging
      // Before libvirt is asked: the guest can release the disk although the answer is lost.
      current.isUnplugging = true
      try {
        await detach(dom, alias)
      } catch (error) {
        if (!(error instanceof LibvirtError)) throw error
        current.isUnplugging = wasUnplugging
        refusal = error.message
      }
    }
    if (await hasDevice(dom, alias)) {
      return refusal === undefined || current.isUnplugging
        ? wait('GuestHoldsVolume', 'the guest has been asked to release the disk, and has not yet')
        : wait('DetachRefused', refusal)
    }
    if (current.isUncertain && (await isInQemu(dom, alias))) {
      return wait(
        'GuestHoldsVolume',
        'libvirtd ended while the disk was attached, and cannot detach it now: the guest has it until the VM is stopped',
      )
    }
    await sockets.remove(name)
    this.#current.delete(name)
    log.info({ volume: name }, 'detached a volume')
    return true
  }

  /** Why the guest uses a disk, in words. */
  async #useOf(dom: DomainRef, disk: GuestDisk): Promise<string | undefined> {
    try {
      const mounts = (await this.#options.readMounts(dom, disk)) ?? []
      return mounts.length === 0
        ? undefined
        : `the guest has mounted it at ${mounts.join(', ')}; it is detached once it is unmounted`
    } catch (error) {
      if (!(error instanceof AgentBusy)) throw error
      return `${error.message}; it is detached once the agent reports that it is not mounted`
    }
  }
}

const reportOf = ({ name, claimName, readOnly = false, podUID, dev, bus }: VolumeRequest) => ({
  name,
  claimName,
  ...(readOnly ? { readOnly } : {}),
  podUID,
  dev,
  bus,
})

const isSameDisk = (one: VolumeRequest, other: VolumeRequest): boolean =>
  one.claimName === other.claimName &&
  (one.readOnly ?? false) === (other.readOnly ?? false) &&
  one.dev === other.dev &&
  one.bus === other.bus &&
  one.serial === other.serial

/** What is named in it has been checked to have no characters of XML (`parseVolumesRequest`). */
const diskXml = (request: VolumeRequest, socket: string): string => {
  const { name, dev, bus, readOnly = false } = request
  return [
    `<disk type='network' device='disk'>`,
    `<driver name='qemu' type='raw' discard='unmap'/>`,
    `<source protocol='nbd'><host transport='unix' socket='${socket}'/><reconnect delay='${reconnectSeconds}'/></source>`,
    `<target dev='${dev}' bus='${bus}'/>`,
    ...(readOnly ? ['<readonly/>'] : []),
    `<serial>${serialOf(request)}</serial>`,
    `<alias name='${aliasOf(name)}'/>`,
    `</disk>`,
  ].join('')
}
