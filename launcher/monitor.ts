import type { Clock } from '../runtime/clock.ts'
import type { JsonObject } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import type { Client } from './libvirt/client.ts'
import {
  type DiskError,
  type DomainRef,
  type DomainState,
  pingQemu,
  readDiskErrors,
  readXml,
} from './libvirt/domain.ts'

/**
 * A monitor that has not responded for this long is reported. libvirtd itself responds from memory while QEMU hangs.
 */
const unresponsiveMs = 20_000

/** libvirtd describes a domain within milliseconds. After this time, the report contains the previous description. */
const describeMs = 1000

interface MonitorOptions {
  readonly client: Client
  readonly clock: Clock
  readonly log: Logger
  /** Undefined if the XML has elements that the description does not have. */
  readonly readXml: (xml: string) => JsonObject | undefined
  /** Called with each description that libvirtd returned in time. */
  readonly onDescribed: (dom: DomainRef, domain: JsonObject | undefined) => void
  /** Called when QEMU stops or starts to respond. */
  readonly onChange: () => void
}

/**
 * What libvirtd has to query from QEMU's monitor, which may hang. Calls do not overlap: each occupies libvirtd while
 * QEMU hangs, and libvirtd can serve only a few such calls.
 */
export class Monitor {
  readonly #options: MonitorOptions
  /** RFC 3339, once the monitor has been silent for long. */
  #unresponsiveSince: string | undefined
  #isPinging = false
  /** libvirtd still waits for QEMU to describe the domain. */
  #isDescribing = false
  #domain: JsonObject | undefined
  #diskErrors: readonly DiskError[] = []

  constructor(options: MonitorOptions) {
    this.#options = options
  }

  get report(): { readonly unresponsiveSince?: string } {
    return this.#unresponsiveSince === undefined ? {} : { unresponsiveSince: this.#unresponsiveSince }
  }

  /** The errors of disks that have paused the guest. */
  get diskErrors(): readonly DiskError[] {
    return this.#diskErrors
  }

  async ping(dom: DomainRef): Promise<void> {
    const { client, clock, log, onChange } = this.#options
    if (this.#isPinging) return
    this.#isPinging = true
    const since = new Date(clock.now()).toISOString()
    const cancel = clock.after(unresponsiveMs, () => {
      log.warn({ since }, 'QEMU does not respond on its monitor')
      this.#unresponsiveSince = since
      onChange()
    })
    // An error is a response too: the domain may have just ended, or libvirtd was lost.
    await pingQemu(client, dom).catch(() => {})
    cancel()
    this.#isPinging = false
    if (this.#unresponsiveSince === undefined) return
    this.#unresponsiveSince = undefined
    onChange()
  }

  /** The live domain, or the previous one while QEMU hangs, because libvirtd waits for QEMU to describe it. */
  async readDomain(dom: DomainRef): Promise<JsonObject | undefined> {
    const { client, clock, readXml: parse, onDescribed, onChange } = this.#options
    if (this.#isDescribing) return this.#domain
    const reading = readXml(client, dom, { deadlineMs: Infinity }).then((xml) => ({ xml }))
    const { promise: timeout, resolve } = Promise.withResolvers<undefined>()
    const cancel = clock.after(describeMs, () => resolve(undefined))
    const read = await Promise.race([reading, timeout]).finally(cancel)
    if (read !== undefined) {
      this.#domain = read.xml === undefined ? undefined : parse(read.xml)
      onDescribed(dom, this.#domain)
      return this.#domain
    }
    this.#isDescribing = true
    const describe = () => {
      this.#isDescribing = false
      onChange()
    }
    reading.then(describe, describe)
    return this.#domain
  }

  /** Reads the errors of the disks of a guest that is paused because of them; the previous ones while QEMU hangs. */
  async readDiskErrors(dom: DomainRef, state: DomainState | undefined): Promise<void> {
    const isPaused = state?.state === 'paused' && state.reason === 'ioerror'
    if (!isPaused) this.#diskErrors = []
    else if (!this.#isDescribing) {
      this.#diskErrors = await readDiskErrors(this.#options.client, dom, describeMs).catch(() => this.#diskErrors)
    }
  }
}
