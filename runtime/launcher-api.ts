import { attachedPhases, mostAttached, type AttachedPhase } from '../api/attached-volume.ts'
import { freezeStates, type FreezeStatus } from '../api/virtual-machine.ts'
import { agentStates, boundGuestInfo, type AgentState, type GuestInfo } from './guest-info.ts'
import { shownLine } from './shown-text.ts'

/**
 * The contract between the handler and the launcher: HTTP and JSON over the unix socket `launcher.sock` of a launcher
 * pod.
 *
 *     PUT  /capabilities   CapabilitiesCache                   202 | 409 once it has a VM. Since version 2; sent before the
 *                                                              VM, and only speeds up its start
 *     PUT  /network    {taps: TapAddress[]}                202 | 409 once it has a VM. Since version 4; sent before a VM
 *                                                              with taps whose guest gets its address from the launcher
 *     PUT  /vm         the VirtualMachine as persisted         202 {domain: DomainReport} | 409 | 400 {error}
 *                                                              Since version 6, a later generation changes media
 *     GET  /domain                                             200 DomainReport | 503 {error} after 3 s without libvirt
 *     POST /shutdown   {gracePeriodSeconds}                    202: the guest is asked to power off, and ended after the
 *                                                              grace period; a later request can only shorten that
 *     POST /destroy                                            202: the domain is being ended
 *     POST /freeze     {id}                                    202: the guest is asked to freeze its file systems, once
 *                                                              for each id and for at most 30 s. Since version 3
 *     POST /thaw       {id}                                    202: the guest is asked to thaw them. Since version 3
 *     PUT  /volumes    {volumes: VolumeRequest[]}          202: exactly these are to be attached to the running guest.
 *                                                              Since version 7
 *     POST /final                                              202: the final state was read, the launcher can exit
 *     GET  /events                                             one line of JSON per change: a DomainReport without
 *                                                              `domain` and `specDrift`; or a heartbeat, every 10 s
 *     GET  /console    Upgrade: console                        101: bytes of the first serial console, both ways
 *     GET  /console?…  Upgrade: virtset                        101: a session (runtime/session-api.ts), also of /vnc,
 *                                                              /tcp/PORT, /screenshot and /metrics
 *
 *     POST /probe/NAME                                         200 or 503, text: the outcome of a probe by a command, such
 *                                                              as readinessProbe. Only for guest-probe in the pod
 *
 * Every response but those of `GET /domain` and `POST /probe` is immediate and does not wait for libvirt. A start that fails is a report
 * with `exit`.
 *
 * Versions. Handlers and launchers of different versions run side by side, in either order. The launcher states its
 * version in each report, the first one included; one without a version precedes version 1. What is added to this
 * contract is an optional field, and a receiver ignores the fields that it does not know: a handler those of a report,
 * a launcher those of the VM's spec, which it reports as `specDrift`. A launcher refuses what it cannot ignore, such as
 * a volume of an unknown kind, with `BadRequest`: the handler does not fail the VM for it, reports both versions, and
 * tries again. A handler takes an unknown reason of an error for `InternalError`, and one of an end or of a volume for
 * `unknown`. A new phase or exit needs a new version, and a request by the handler to use it.
 *
 * A guest that broke out of QEMU, or a user with `pods/exec`, can respond in the launcher's place. So nothing read from
 * the socket is trusted: every shape, length and depth is checked here, and a violation is an
 * `InvalidLauncherResponse`.
 */

/**
 * The version of this contract. 1: reports have `version`, `gracePeriodSeconds` and `unresponsiveSince`. 2: the
 * launcher accepts `PUT /capabilities`. 3: it accepts `POST /freeze` and `POST /thaw`. 4: it accepts `PUT /network`. 5: it serves
 * `dhcp6` of a tap. 6: it changes media, and reports `generation`. 7: it accepts
 * `PUT /volumes`, and reports `volumes`.
 */
export const launcherVersion = 7

/** JSON from the wire. */
export type Json = null | boolean | number | string | Json[] | JsonObject

export interface JsonObject {
  [key: string]: Json
}

/** The largest request that the launcher reads: the API server stores no larger object. */
export const maxMessageBytes = 4 * 1024 * 1024

/** The largest response that the handler reads. A domain of 100 devices is 60 KiB; the launcher omits a larger one. */
export const maxResponseBytes = 1024 * 1024

/** The longest `message`; longer messages of libvirt and QEMU are cut. */
export const maxTextLength = 64 * 1024

/**
 * A file of libvirtd's cache with what QEMU can do, as a libvirtd of the same image on the same node has written it.
 */
export interface CapabilitiesCache {
  /** The file's name: the hash of QEMU's path. */
  readonly name: string
  /** 100 KB; 270 KB with KVM. */
  readonly text: string
}

/** The longest `CapabilitiesCache` as JSON. */
export const maxCapabilitiesBytes = 1024 * 1024

/** A claim that a pod serves, to be attached as a disk. */
export interface VolumeRequest {
  name: string
  claimName: string
  readOnly?: boolean
  /** Of the pod that serves the claim: the handler has moved its socket to the launcher. */
  podUID: string
  dev: string
  bus: string
  serial?: string
}

/** What has become of a request, or of one that was made before. */
export interface VolumeReport extends Omit<VolumeRequest, 'serial'> {
  phase: AttachedPhase
  reason?: string
  message?: string
}

/** In the volume `sockets`: the directory for the sockets of pods that serve claims, each named UID.sock. */
export const attachedSocketDirectory = 'volumes'

/** The socket's name in the volume `sockets`. It appears, by rename, when libvirtd responds. */
export const launcherSocketName = 'launcher.sock'

/** A stream of `GET /events` that is silent for three intervals is dead. */
export const heartbeatIntervalMs = 10_000

/** The reason of a report while a claim is being filled; its message has the per cent. */
export const fillingDisk = 'fillingDisk'

/** The reason of a report while the launcher waits to repeat a download that failed; its message has the cause. */
export const downloadFailed = 'downloadFailed'

/** The reason of a report while the launcher waits for space for a disk; its message has how much is missing. */
export const noSpace = 'noSpace'

/** The line on `GET /events` without a change. Every other line is a change. */
export const heartbeatLine = '{"heartbeat":true}'

const maxDepth = 32
const maxValues = 50_000
/** The API server's limit for a whole object is not much higher; libvirt's metadata is one string. */
const maxValueLength = 1024 * 1024
const maxDrifts = 1000
const maxTags = 1000

const phases = ['Waiting', 'Defined', 'Running', 'Paused', 'ShuttingDown', 'Shutoff', 'Crashed', 'Gone'] as const

/** Waiting: has no VM yet. Defined: accepted, the guest does not run yet. Gone: libvirt no longer has the domain. */
export type LauncherPhase = (typeof phases)[number]

const exits = ['Succeeded', 'Failed'] as const

/** Succeeded: the guest powered off, by itself or on request. Failed: any other end. */
export type LauncherExit = (typeof exits)[number]

/**
 * libvirt's reasons for the states shutoff and crashed, and the launcher's own. The controller's are not among them: a
 * launcher that a guest has taken over must not state that its node is lost.
 */
const endReasons: readonly string[] = [
  'unknown',
  'shutdown',
  'destroyed',
  'crashed',
  'migrated',
  'saved',
  'failed',
  'fromSnapshot',
  'daemon',
  'panicked',
  'undefined',
  'defineRefused',
  'startFailed',
  'volumeUnavailable',
  'OOMKilled',
]

/** Why a volume is not attached, or not detached yet. */
const volumeReasons: readonly string[] = ['AttachRefused', 'DetachRefused', 'GuestHoldsVolume', 'VolumeInUse']

/** A field whose meaning libvirt, or an older launcher, changed. The side without the field is absent. */
export interface SpecDrift {
  field: string
  spec?: Json
  libvirt?: Json
}

export interface DomainReport {
  /** The launcher's version of this contract; absent before version 1. */
  version?: number
  /** Empty while Waiting. */
  vmUID: string
  phase: LauncherPhase
  /**
   * libvirt's reason for the state, in lower camel case: `unpaused`, `shutdown`, `failed`. `OOMKilled`: memory ran out.
   */
  reason: string
  /** libvirt's or QEMU's own message, or why the guest ended. */
  message?: string
  /** The live domain, or the defined one of a guest that does not run. */
  domain?: JsonObject
  /** Absent until compared; empty if spec and domain mean the same. */
  specDrift?: SpecDrift[]
  /**
   * RFC 3339, for people: when a guest that was asked to power off is ended. The launcher counts, with a monotonic
   * clock.
   */
  deadline?: string
  /** The grace period that `deadline` results from. */
  gracePeriodSeconds?: number
  /** RFC 3339, for people: since when QEMU has not responded on its monitor. Absent while it responds. */
  unresponsiveSince?: string
  /** The generation of the VM whose media were requested from libvirt last; absent before version 6. */
  generation?: number
  /** Why libvirt or the guest did not accept some of them; the launcher tries again. */
  mediaFailure?: string
  /** The attached volumes, once there was a request for some. */
  volumes?: VolumeReport[]
  /** The tags of file systems of a running guest whose virtiofsd has ended. */
  lostFilesystems?: string[]
  /** Whether the launcher was asked to terminate before the guest ended: its pod was deleted, evicted or drained. */
  isTerminated?: boolean
  /** Present for a guest with a channel for an agent. */
  agent?: AgentState
  /** What the agent claims. */
  guest?: GuestInfo
  /** The last request to freeze the guest. */
  frozen?: FreezeStatus
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
  'TooManySessions',
  'InternalError',
] as const

/**
 * DefineRefused, StartFailed, VolumeUnavailable: the VM cannot run here, the launcher ends non-zero. OOMKilled: QEMU
 * needed more memory than the launcher pod has; the launcher ends non-zero. OtherVirtualMachine: this launcher belongs
 * to another uid. NotReady: no VM yet, or no console. LibvirtUnavailable: retry.
 * TooManySessions: this VM has as many as it can have.
 */
export type LauncherErrorReason = (typeof errorReasons)[number]

interface LauncherError {
  reason: LauncherErrorReason
  message: string
}

/** The other side violated this contract. */
export class InvalidLauncherResponse extends Error {
  override name = 'InvalidLauncherResponse'
}

/** @throws InvalidLauncherResponse */
export function parseDomainReport(value: unknown): DomainReport {
  const fields = parseObject(value, 'report')
  const report: DomainReport = {
    vmUID: parseText(fields['vmUID'], 'vmUID', 64),
    phase: parseOneOf(fields['phase'], 'phase', phases),
    reason: parseReason(fields['reason']),
    observedAt: parseTime(fields['observedAt'], 'observedAt'),
  }
  if (fields['version'] !== undefined) report.version = parseCount(fields['version'], 'version')
  if (fields['message'] !== undefined) report.message = parseText(fields['message'], 'message', maxTextLength)
  if (fields['domain'] !== undefined) report.domain = parseObject(fields['domain'], 'domain')
  if (fields['specDrift'] !== undefined) report.specDrift = parseDrifts(fields['specDrift'])
  if (fields['deadline'] !== undefined) report.deadline = parseTime(fields['deadline'], 'deadline')
  if (fields['gracePeriodSeconds'] !== undefined) {
    report.gracePeriodSeconds = parseCount(fields['gracePeriodSeconds'], 'gracePeriodSeconds')
  }
  if (fields['unresponsiveSince'] !== undefined) {
    report.unresponsiveSince = parseTime(fields['unresponsiveSince'], 'unresponsiveSince')
  }
  if (fields['generation'] !== undefined) report.generation = parseCount(fields['generation'], 'generation')
  if (fields['mediaFailure'] !== undefined) {
    report.mediaFailure = parseText(fields['mediaFailure'], 'mediaFailure', maxTextLength)
  }
  if (fields['volumes'] !== undefined) report.volumes = parseVolumeReports(fields['volumes'])
  if (fields['lostFilesystems'] !== undefined) report.lostFilesystems = parseTags(fields['lostFilesystems'])
  if (fields['isTerminated'] !== undefined) report.isTerminated = parseFlag(fields['isTerminated'], 'isTerminated')
  const agent = agentStates.find((state) => state === fields['agent'])
  if (agent !== undefined) report.agent = agent
  if (agent !== undefined && fields['guest'] !== undefined) report.guest = boundGuestInfo(fields['guest'])
  if (fields['frozen'] !== undefined) report.frozen = parseFreezeStatus(fields['frozen'])
  if (fields['exit'] !== undefined) {
    report.exit = parseOneOf(fields['exit'], 'exit', exits)
    if (!endReasons.includes(report.reason)) report.reason = 'unknown'
  }
  return report
}

/**
 * The 2xx response to `PUT /vm`.
 * @throws InvalidLauncherResponse
 */
export function parsePutResponse(value: unknown): DomainReport {
  return parseDomainReport(parseObject(value, 'response')['domain'])
}

/** Whether a handler accepts the report that this is the JSON of, as a response to `GET /domain` and to `PUT /vm`. */
export function isAcceptedReport(text: string): boolean {
  try {
    parsePutResponse({ domain: parseJson(text) })
    return true
  } catch (error) {
    if (error instanceof InvalidLauncherResponse) return false
    throw error
  }
}

/**
 * The body of a response other than 2xx.
 * @throws InvalidLauncherResponse
 */
export function parseLauncherError(value: unknown): LauncherError {
  const error = parseObject(parseObject(value, 'response')['error'], 'error')
  const reason = parseText(error['reason'], 'error.reason', 128)
  return {
    reason: errorReasons.find((known) => known === reason) ?? 'InternalError',
    message: parseText(error['message'], 'error.message', maxTextLength),
  }
}

/**
 * The body of `PUT /capabilities`.
 * @throws InvalidLauncherResponse
 */
export function parseCapabilitiesCache(value: unknown): CapabilitiesCache {
  const { name, text } = parseObject(value, 'request')
  if (typeof name !== 'string' || !/^[0-9a-f]{64}\.xml$/.test(name))
    throw new InvalidLauncherResponse('name is not 64 hexadecimal digits with the suffix .xml')
  if (typeof text !== 'string' || text.length > maxCapabilitiesBytes)
    throw new InvalidLauncherResponse(`text is not a string of at most ${maxCapabilitiesBytes} characters`)
  return { name, text }
}

/**
 * The body of `POST /shutdown`.
 * @throws InvalidLauncherResponse
 */
export function parseShutdownRequest(value: unknown): { gracePeriodSeconds: number } {
  return { gracePeriodSeconds: parseCount(parseObject(value, 'request')['gracePeriodSeconds'], 'gracePeriodSeconds') }
}

/**
 * The body of `POST /freeze` and `POST /thaw`.
 * @throws InvalidLauncherResponse
 */
export function parseFreezeRequest(value: unknown): { id: string } {
  return { id: parseText(parseObject(value, 'request')['id'], 'id', 64) }
}

/**
 * The body of `PUT /volumes`. Its texts are used as names of files and in XML.
 * @throws InvalidLauncherResponse
 */
export function parseVolumesRequest(value: unknown): VolumeRequest[] {
  const { volumes } = parseObject(value, 'request')
  if (!Array.isArray(volumes) || volumes.length > mostAttached)
    throw new InvalidLauncherResponse(`volumes is not a list of at most ${mostAttached}`)
  return volumes.map((item, index) => {
    const at = `volumes[${index}]`
    const fields = parseObject(item, at)
    const { serial, readOnly } = fields
    return {
      ...parseVolume(fields, at),
      ...(readOnly === undefined ? {} : { readOnly: parseFlag(readOnly, `${at}.readOnly`) }),
      ...(serial === undefined ? {} : { serial: parseMatch(serial, `${at}.serial`, /^[A-Za-z0-9_.+-]{1,36}$/) }),
    }
  })
}

/** A launcher that a guest has taken over reports what it likes. */
function parseVolumeReports(value: Json): VolumeReport[] {
  const most = 2 * mostAttached
  if (!Array.isArray(value) || value.length > most)
    throw new InvalidLauncherResponse(`volumes is not a list of at most ${most}`)
  const reports = value.map((item, index): VolumeReport => {
    const at = `volumes[${index}]`
    const fields = parseObject(item, at)
    const { reason, message, readOnly } = fields
    return {
      ...parseVolume(fields, at),
      ...(readOnly === undefined ? {} : { readOnly: parseFlag(readOnly, `${at}.readOnly`) }),
      phase: parseOneOf(fields['phase'], `${at}.phase`, attachedPhases),
      ...(reason === undefined ? {} : { reason: volumeReasons.find((known) => known === reason) ?? 'Unknown' }),
      ...(message === undefined ? {} : { message: parseText(message, `${at}.message`, 1024) }),
    }
  })
  // The status is a map by name.
  if (new Set(reports.map(({ name }) => name)).size < reports.length)
    throw new InvalidLauncherResponse('volumes has two of the same name')
  return reports
}

const parseVolume = (fields: JsonObject, at: string) => ({
  name: parseMatch(fields['name'], `${at}.name`, /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/),
  claimName: parseMatch(fields['claimName'], `${at}.claimName`, /^[-a-z0-9.]{1,253}$/),
  podUID: parseMatch(fields['podUID'], `${at}.podUID`, /^[0-9a-f-]{36}$/),
  dev: parseMatch(fields['dev'], `${at}.dev`, /^[a-z]{3,5}$/),
  bus: parseMatch(fields['bus'], `${at}.bus`, /^[a-z]{1,16}$/),
})

function parseMatch(value: Json | undefined, what: string, pattern: RegExp): string {
  if (typeof value !== 'string' || !pattern.test(value))
    throw new InvalidLauncherResponse(`${what} does not match ${pattern.source}`)
  return value
}

/**
 * `text` as JSON, not longer than `maxMessageBytes`.
 * @throws InvalidLauncherResponse
 */
export function parseJson(text: string): unknown {
  if (text.length > maxMessageBytes)
    throw new InvalidLauncherResponse(`the body is longer than ${maxMessageBytes} bytes`)
  try {
    return JSON.parse(text)
  } catch (error) {
    throw new InvalidLauncherResponse('the body is not JSON', { cause: error })
  }
}

function parseDrifts(value: Json): SpecDrift[] {
  if (!Array.isArray(value) || value.length > maxDrifts) {
    throw new InvalidLauncherResponse(`specDrift is not a list of at most ${maxDrifts}`)
  }
  return value.map((item, index) => {
    const fields = parseObject(item, `specDrift[${index}]`)
    const drift: SpecDrift = { field: parseText(fields['field'], `specDrift[${index}].field`, 1024) }
    if (fields['spec'] !== undefined) drift.spec = fields['spec']
    if (fields['libvirt'] !== undefined) drift.libvirt = fields['libvirt']
    return drift
  })
}

function parseTags(value: Json): string[] {
  if (!Array.isArray(value) || value.length > maxTags) {
    throw new InvalidLauncherResponse(`lostFilesystems is not a list of at most ${maxTags}`)
  }
  return value.map((tag, index) => parseText(tag, `lostFilesystems[${index}]`, 255))
}

function parseFreezeStatus(value: Json): FreezeStatus {
  const fields = parseObject(value, 'frozen')
  const message = fields['message']
  return {
    id: parseText(fields['id'], 'frozen.id', 64),
    state: parseOneOf(fields['state'], 'frozen.state', freezeStates),
    ...(message === undefined ? {} : { message: parseText(message, 'frozen.message', 1024) }),
  }
}

function parseText(value: Json | undefined, what: string, maxLength: number): string {
  if (typeof value !== 'string') throw new InvalidLauncherResponse(`${what} is not a string`)
  if (value.length > maxLength) throw new InvalidLauncherResponse(`${what} is longer than ${maxLength}`)
  return shownLine(value)
}

/** A word, or the numbers of a state that libvirt has added. More spaces would forge the columns that follow it. */
function parseReason(value: Json | undefined): string {
  const text = parseText(value, 'reason', 128)
  if (!/^([A-Za-z0-9]+( [A-Za-z0-9]+)*)?$/.test(text)) {
    throw new InvalidLauncherResponse('reason is not words of letters and digits with a space between them')
  }
  return text
}

function parseCount(value: Json | undefined, what: string): number {
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > 1e9) {
    throw new InvalidLauncherResponse(`${what} is not an integer from 0 to 1000000000`)
  }
  return value
}

function parseFlag(value: Json, what: string): boolean {
  if (typeof value !== 'boolean') throw new InvalidLauncherResponse(`${what} is not a boolean`)
  return value
}

function parseTime(value: Json | undefined, what: string): string {
  const text = parseText(value, what, 40)
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text) || Number.isNaN(Date.parse(text))) {
    throw new InvalidLauncherResponse(`${what} is not an RFC 3339 time`)
  }
  return text
}

function parseOneOf<T extends string>(value: Json | undefined, what: string, allowed: readonly T[]): T {
  const found = allowed.find((candidate) => candidate === value)
  if (found === undefined) throw new InvalidLauncherResponse(`${what} is not one of ${allowed.join(', ')}`)
  return found
}

/** Bounded before use: later code walks it recursively and writes it to the API server. */
function parseObject(value: unknown, what: string): JsonObject {
  const budget = { values: maxValues }
  if (!isJsonObject(value) || !isBounded(value, maxDepth, budget)) {
    throw new InvalidLauncherResponse(`${what} is not an object of at most ${maxDepth} levels and ${maxValues} values`)
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
  return Object.entries(value).every(([key, item]) => isSafeKey(key) && isBounded(item, levels - 1, budget))
}

/** Anywhere in the key: keys are shown without the white space around them, and without empty lines. */
const isSafeKey = (key: string): boolean => key.length <= 256 && !key.includes('__proto__')
