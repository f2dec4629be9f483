/**
 * The contract between the handler and the launcher: HTTP and JSON over the unix socket `launcher.sock` of a launcher pod.
 *
 *     PUT  /vm         the VirtualMachine as persisted         202 {domain: DomainReport} | 409 | 400 {error}
 *     GET  /domain                                             200 DomainReport | 503 {error} after 3 s without libvirt
 *     POST /shutdown   {gracePeriodSeconds}                    202: the guest is asked to power off; the first deadline stays
 *     POST /destroy                                            202: the domain is being ended
 *     POST /final                                              202: the final state was read, the launcher may exit
 *     GET  /events                                             a line of JSON per change: a DomainReport without `domain` and
 *                                                              `specDrift`; or a heartbeat, every 10 s
 *     GET  /console    Upgrade: console                        101: bytes of the first serial console, both ways
 *
 * Every answer but that of `GET /domain` is immediate and does not wait for libvirt. A start that fails is a report with `exit`.
 * Launchers of the previous version answer `PUT /vm` when the guest runs, or with 422 when it cannot; `POST /shutdown` and `POST /destroy`
 * when libvirt has answered; and their events have `domain`.
 *
 * A guest that broke out of QEMU, or a user with `pods/exec`, can answer in the launcher's place, so nothing read from the socket is
 * trusted: every shape, length and depth is checked here, and what does not fit is an `InvalidLauncherAnswer`.
 */

/** JSON as it comes off the wire. */
export type Json = null | boolean | number | string | Json[] | JsonObject

export interface JsonObject {
  [key: string]: Json
}

/** The most bytes of a request that the launcher reads: the API server stores no object that is longer. */
export const maxMessageBytes = 4 * 1024 * 1024

/** The most bytes of an answer that the handler reads. A domain of 100 devices is 60 KiB; the launcher leaves out one that does not fit. */
export const maxAnswerBytes = 1024 * 1024

/** The longest `message`; what libvirt and QEMU say beyond it is cut. */
export const maxTextLength = 64 * 1024

/** The socket's name in the volume `sockets`; it appears by rename when libvirtd answers. */
export const launcherSocketName = 'launcher.sock'

/** Silence on `GET /events` for three times this long means that the launcher is gone. */
export const heartbeatIntervalMs = 10_000

/** The line on `GET /events` that only says that the launcher lives. Every other line is a change. */
export const heartbeatLine = '{"heartbeat":true}'

const maxDepth = 32
const maxValues = 50_000
/** A whole object in the API server is hardly longer; libvirt's metadata is one string of it. */
const maxValueLength = 1024 * 1024
const maxDrifts = 1000

const phases = ['Waiting', 'Defined', 'Running', 'Paused', 'ShuttingDown', 'Shutoff', 'Crashed', 'Gone'] as const

/** Waiting: no VM was given yet. Defined: accepted, the guest does not run yet. Gone: libvirt no longer knows the domain. */
export type LauncherPhase = (typeof phases)[number]

const exits = ['Succeeded', 'Failed'] as const

/** How the VM ended: by its own will or as asked, or else. */
export type LauncherExit = (typeof exits)[number]

/** A field whose meaning libvirt changed: `spec` or `libvirt` is absent where that side has nothing. */
export interface SpecDrift {
  field: string
  spec?: Json
  libvirt?: Json
}

export interface DomainReport {
  /** Empty while Waiting. */
  vmUID: string
  phase: LauncherPhase
  /** libvirt's reason for the state, in lower camel case: `booted`, `shutdown`, `failed`. `OOMKilled`: memory ran out. */
  reason: string
  /** libvirt's or QEMU's own words, if something went wrong. */
  message?: string
  /** The live domain, or the defined one where nothing lives. */
  domain?: JsonObject
  /** Absent until compared; empty if spec and domain mean the same. */
  specDrift?: SpecDrift[]
  /** RFC 3339: when a guest that was asked to shut down is destroyed. */
  deadline?: string
  exit?: LauncherExit
  /** RFC 3339. */
  observedAt: string
}

const errorReasons = [
  'DefineRefused',
  'StartFailed',
  'VolumeUnavailable',
  'OOMKilled',
  'OtherVirtualMachine',
  'BadRequest',
  'NotFound',
  'NotReady',
  'LibvirtUnavailable',
  'InternalError',
] as const

/**
 * DefineRefused, StartFailed, VolumeUnavailable: the VM cannot run here, the launcher ends non-zero.
 * OOMKilled: QEMU needed more memory than the launcher pod has; the launcher ends non-zero.
 * OtherVirtualMachine: this launcher belongs to another uid. NotReady: no VM yet, or no console. LibvirtUnavailable: ask again.
 */
export type LauncherErrorReason = (typeof errorReasons)[number]

export interface LauncherError {
  reason: LauncherErrorReason
  message: string
}

/** The other side sent what this contract does not allow. */
export class InvalidLauncherAnswer extends Error {
  override name = 'InvalidLauncherAnswer'
}

/** @throws InvalidLauncherAnswer */
export function parseDomainReport(value: unknown): DomainReport {
  const fields = parseObject(value, 'report')
  const report: DomainReport = {
    vmUID: parseText(fields['vmUID'], 'vmUID', 64),
    phase: parseOneOf(fields['phase'], 'phase', phases),
    reason: parseText(fields['reason'], 'reason', 128),
    observedAt: parseTime(fields['observedAt'], 'observedAt'),
  }
  if (fields['message'] !== undefined) report.message = parseText(fields['message'], 'message', maxTextLength)
  if (fields['domain'] !== undefined) report.domain = parseObject(fields['domain'], 'domain')
  if (fields['specDrift'] !== undefined) report.specDrift = parseDrifts(fields['specDrift'])
  if (fields['deadline'] !== undefined) report.deadline = parseTime(fields['deadline'], 'deadline')
  if (fields['exit'] !== undefined) report.exit = parseOneOf(fields['exit'], 'exit', exits)
  return report
}

/**
 * The 2xx answer of `PUT /vm`.
 * @throws InvalidLauncherAnswer
 */
export function parsePutAnswer(value: unknown): DomainReport {
  return parseDomainReport(parseObject(value, 'answer')['domain'])
}

/**
 * The body of any answer that is not 2xx.
 * @throws InvalidLauncherAnswer
 */
export function parseLauncherError(value: unknown): LauncherError {
  const error = parseObject(parseObject(value, 'answer')['error'], 'error')
  return {
    reason: parseOneOf(error['reason'], 'error.reason', errorReasons),
    message: parseText(error['message'], 'error.message', maxTextLength),
  }
}

/**
 * The body of `POST /shutdown`.
 * @throws InvalidLauncherAnswer
 */
export function parseShutdownRequest(value: unknown): { gracePeriodSeconds: number } {
  const seconds = parseObject(value, 'request')['gracePeriodSeconds']
  if (typeof seconds !== 'number' || !Number.isInteger(seconds) || seconds < 0 || seconds > 1e9) {
    throw new InvalidLauncherAnswer('gracePeriodSeconds is not a whole number of seconds')
  }
  return { gracePeriodSeconds: seconds }
}

/**
 * `text` as JSON, not longer than `maxMessageBytes`.
 * @throws InvalidLauncherAnswer
 */
export function parseJson(text: string): unknown {
  if (text.length > maxMessageBytes) throw new InvalidLauncherAnswer(`longer than ${maxMessageBytes} bytes`)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new InvalidLauncherAnswer('not JSON', { cause: error })
  }
}

function parseDrifts(value: Json): SpecDrift[] {
  if (!Array.isArray(value) || value.length > maxDrifts) {
    throw new InvalidLauncherAnswer(`specDrift is not a list of at most ${maxDrifts}`)
  }
  return value.map((item, index) => {
    const fields = parseObject(item, `specDrift[${index}]`)
    const drift: SpecDrift = { field: parseText(fields['field'], `specDrift[${index}].field`, 1024) }
    if (fields['spec'] !== undefined) drift.spec = fields['spec']
    if (fields['libvirt'] !== undefined) drift.libvirt = fields['libvirt']
    return drift
  })
}

function parseText(value: Json | undefined, what: string, maxLength: number): string {
  if (typeof value !== 'string') throw new InvalidLauncherAnswer(`${what} is not a string`)
  if (value.length > maxLength) throw new InvalidLauncherAnswer(`${what} is longer than ${maxLength}`)
  return value
}

function parseTime(value: Json | undefined, what: string): string {
  const text = parseText(value, what, 40)
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text) || Number.isNaN(Date.parse(text))) {
    throw new InvalidLauncherAnswer(`${what} is no RFC 3339 time`)
  }
  return text
}

function parseOneOf<T extends string>(value: Json | undefined, what: string, allowed: readonly T[]): T {
  const found = allowed.find((candidate) => candidate === value)
  if (found === undefined) throw new InvalidLauncherAnswer(`${what} is none of ${allowed.join(', ')}`)
  return found
}

/** Bounded before it is believed: later code walks it by recursion and writes it to the API server. */
function parseObject(value: unknown, what: string): JsonObject {
  const budget = { values: maxValues }
  if (!isJsonObject(value) || !isBounded(value, maxDepth, budget)) {
    throw new InvalidLauncherAnswer(`${what} is not an object of at most ${maxDepth} levels and ${maxValues} values`)
  }
  return value
}

function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function isBounded(value: unknown, levels: number, budget: { values: number }): boolean {
  budget.values -= 1
  if (budget.values < 0) return false
  if (value === null || typeof value === 'boolean' || typeof value === 'number') return true
  if (typeof value === 'string') return value.length <= maxValueLength
  if (typeof value !== 'object' || levels === 0) return false
  if (Array.isArray(value)) return value.every((item) => isBounded(item, levels - 1, budget))
  return Object.entries(value).every(
    ([key, item]) => key !== '__proto__' && key.length <= 256 && isBounded(item, levels - 1, budget),
  )
}
