import { isDeepStrictEqual } from 'node:util'
import { agentChannel } from '../api/guest.ts'
import type { Clock } from '../runtime/clock.ts'
import { boundGuestInfo, type AgentState, type GuestInfo } from '../runtime/guest-info.ts'
import type { Json, JsonObject } from '../runtime/launcher-api.ts'
import type { Logger } from '../runtime/log.ts'
import { isJsonObject } from './drift.ts'
import type { DomainRef } from './libvirt/domain.ts'
import { AgentUnresponsive } from './libvirt/agent-errors.ts'
import type { GuestAnswer, GuestQuestion } from './libvirt/guest-info.ts'

/** How often the addresses of the guest are read, and how far apart the intervals of different VMs are. */
const pollMs = 60_000
const jitterMs = 6000
/** Host name and operating system seldom change: they are read with each tenth poll. */
const pollsOfAll = 10
/** A guest can open and close its channel as often as it likes. Each change of the report is a write of the handler. */
const settleMs = 10_000
/** A guest that boots, or updates its agent, has none meanwhile. One that has removed it must not be waited for for ever. */
export const agentReturnMinutes = 5

interface GuestAgentOptions {
  /** @throws AgentUnresponsive */
  readonly ask: (dom: DomainRef, questions: readonly GuestQuestion[]) => Promise<GuestAnswer>
  /** A frozen guest does not answer most questions. */
  readonly isFrozen: () => boolean
  readonly clock: Clock
  readonly log: Logger
  /** From 0 to 1. */
  readonly random: () => number
  /** The report has changed. */
  readonly onChange: () => void
}

/**
 * Follows the agent in a guest: reads everything when it connects, and its addresses each minute, which are 72 requests
 * to the agent per hour. Whatever the guest sends, the state changes at most every 10 s, what it reports at most every
 * minute and when it connects, and no other call waits for it.
 */
export class GuestAgent {
  readonly #options: GuestAgentOptions
  #dom: DomainRef | undefined
  /** Whether the channel is open, by libvirt; undefined without a channel. */
  #isOpen: boolean | undefined
  #state: AgentState | undefined
  #info: GuestInfo = {}
  /** Since when, by the monotonic clock, an agent that was connected is not. */
  #leftAtMs: number | undefined
  #polls = 0
  #isPolling = false
  #isSettling = false
  #cancelPoll = () => {}

  constructor(options: GuestAgentOptions) {
    this.#options = options
  }

  /** The part of the launcher's report about the agent. */
  get report(): { readonly agent?: AgentState; readonly guest?: GuestInfo } {
    if (this.#state === undefined) return {}
    return { agent: this.#state, ...(Object.keys(this.#info).length === 0 ? {} : { guest: this.#info }) }
  }

  /** Whether an agent that was connected is not, and not for long: it may return, and then know more. */
  get mayReturn(): boolean {
    if (this.#leftAtMs === undefined) return false
    return this.#options.clock.monotonic() - this.#leftAtMs < agentReturnMinutes * 60_000
  }

  /** Accepts what libvirt reports now. */
  observe(dom: DomainRef, isOpen: boolean | undefined): void {
    this.#dom = dom
    this.#isOpen = isOpen
    if (!this.#isSettling) this.#settle()
  }

  #settle(): boolean {
    const isShownOpen = this.#state === undefined ? undefined : this.#state !== 'disconnected'
    if (this.#isOpen === isShownOpen) return false
    if (this.#isOpen === true) this.#leftAtMs = undefined
    else if (isShownOpen === true) this.#leftAtMs = this.#options.clock.monotonic()
    this.#cancelPoll()
    this.#info = {}
    this.#polls = 0
    this.#state = this.#isOpen === undefined ? undefined : this.#isOpen ? 'connected' : 'disconnected'
    this.#isSettling = true
    this.#options.clock.after(settleMs, () => {
      this.#isSettling = false
      if (this.#settle()) this.#options.onChange()
    })
    if (this.#isOpen === true) void this.#poll()
    return true
  }

  async #poll(): Promise<void> {
    const { ask, isFrozen, clock, log, random, onChange } = this.#options
    if (this.#isPolling || this.#dom === undefined) return
    if (isFrozen()) return void (this.#cancelPoll = clock.after(settleMs, () => void this.#poll()))
    this.#isPolling = true
    const isAll = this.#polls % pollsOfAll === 0
    this.#polls += 1
    const before = this.report
    try {
      const answer = await ask(this.#dom, isAll ? ['hostname', 'os', 'interfaces'] : ['interfaces'])
      if (this.#isOpen === true && this.#state !== 'disconnected') {
        const known = isAll ? {} : this.#info
        const { interfaces: _interfaces, ...rest } = known
        this.#info = boundGuestInfo({ ...rest, ...answer })
        this.#state = 'connected'
      }
    } catch (error) {
      log.debug({ err: error }, 'could not read from the agent of the guest')
      if (error instanceof AgentUnresponsive && this.#state === 'connected') this.#state = 'unresponsive'
    }
    this.#isPolling = false
    if (this.#state !== 'connected' && this.#state !== 'unresponsive') return
    this.#cancelPoll = clock.after(pollMs + (random() - 0.5) * jitterMs, () => void this.#poll())
    if (!isDeepStrictEqual(before, this.report)) onChange()
  }
}

/** Whether the channel of the agent is open, in the live domain; undefined without one. */
export function isAgentOpen(domain: JsonObject | undefined): boolean | undefined {
  const target = channelsOf(domain)
    .map(targetOf)
    .find((one) => one?.['name'] === agentChannel && one['type'] === 'virtio')
  return target === undefined ? undefined : target['state'] === 'connected'
}

/**
 * The domain without the state of its channels: a guest opens and closes them as often as it likes. A condition reports
 * that of the agent's.
 */
export function withoutChannelStates(domain: JsonObject): JsonObject {
  if (channelsOf(domain).every((channel) => targetOf(channel)?.['state'] === undefined)) return domain
  const copy = structuredClone(domain)
  for (const target of channelsOf(copy).map(targetOf)) delete target?.['state']
  return copy
}

function channelsOf(domain: JsonObject | undefined): readonly Json[] {
  const { devices } = domain ?? {}
  if (!isJsonObject(devices)) return []
  const { channels } = devices
  return Array.isArray(channels) ? channels : []
}

function targetOf(channel: Json): JsonObject | undefined {
  if (!isJsonObject(channel)) return undefined
  const { target } = channel
  return isJsonObject(target) ? target : undefined
}
