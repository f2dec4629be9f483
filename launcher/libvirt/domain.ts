import type { Duplex } from 'node:stream'
import { isRecord } from '../../api/schema.ts'
import type { Client } from './client.ts'
import type { LibvirtEvent } from './connection.ts'
import { LibvirtError, ProtocolError } from './errors.ts'
import { errorCodes, stateNames } from './protocol.ts'
import type { Value } from './xdr.ts'

/** libvirt's reference to a domain; only `uuid` is significant. */
export type DomainRef = { name: string; uuid: Uint8Array; id: number }

export interface DomainState {
  /** `running`, `paused`, `shutoff`, `crashed`, … */
  readonly state: string
  /** `booted`, `destroyed`, … */
  readonly reason: string
}

/** A disk of a running guest whose last operation failed. */
export interface DiskError {
  /** e.g. `vda` */
  readonly target: string
  /** Whether a write failed because no space is left. */
  readonly isFull: boolean
}

/** In bytes. */
export interface DiskSize {
  /** What the guest sees. */
  readonly capacity: bigint
  /** Of its file or device. */
  readonly physical: bigint
}

const mostDiskErrors = 256
const noSpace = 2
const xmlInactive = 2
const defineValidate = 1
const startPaused = 1
const shutdownAcpiPowerButton = 1
const lifecycleShutdown = 6
const byGuest = 1
const affectLive = 1
const affectConfig = 2
const destroyGraceful = 1
const consoleForce = 1
const resizeInBytes = 1

/** With a cold cache, libvirt first probes QEMU: 0.7 s measured. */
const defineDeadlineMs = 60_000
/** QEMU opens its disks while it starts; an unreachable iSCSI target times out slowly. */
const startDeadlineMs = 180_000
/** For a QEMU that hangs, libvirt sends SIGTERM, gives up after 10 s, and waits for other calls for up to 30 s. */
const destroyDeadlineMs = 20_000
/** libvirt waits for the tray of a drive, and opens an image. */
const mediumDeadlineMs = 60_000
/** libvirt sends SIGTERM, after 10 s SIGKILL, and waits for up to 30 s. */
const killDeadlineMs = 60_000

/** Whether the guest has powered itself off: QEMU is about to end. */
export function isPowerOff({ name, message }: LibvirtEvent): boolean {
  const { msg } = message
  if (name !== 'lifecycle' || typeof msg !== 'object' || msg === null || !('event' in msg)) return false
  return msg['event'] === lifecycleShutdown && msg['detail'] === byGuest
}

/** Defines the domain without starting it; libvirt validates it against its schema. */
export async function defineDomain(client: Client, xml: string): Promise<DomainRef> {
  const { dom } = await client.mutate('domain_define_xml_flags', { xml, flags: defineValidate }, defineDeadlineMs)
  return readRef(dom)
}

export async function startDomain(client: Client, dom: DomainRef, options: { isPaused?: boolean } = {}): Promise<void> {
  const flags = options.isPaused === true ? startPaused : 0
  await client.mutate('domain_create_with_flags', { dom, flags }, startDeadlineMs)
}

/** Every domain the daemon knows, running or not. */
export async function listDomains(client: Pick<Client, 'read'>): Promise<DomainRef[]> {
  const { domains } = await client.read('connect_list_all_domains', { need_results: 1, flags: 0 })
  if (!Array.isArray(domains)) throw new ProtocolError('the reply has no list of domains')
  return domains.map(readRef)
}

/** Undefined if libvirt does not know the domain, or no longer knows it. */
export async function readState(client: Client, dom: DomainRef): Promise<DomainState | undefined> {
  return unlessError(errorCodes.noDomain, async () => {
    const { state, reason } = await client.read('domain_get_state', { dom, flags: 0 })
    if (typeof state !== 'number' || typeof reason !== 'number') throw new ProtocolError('a state is not a number')
    return stateNames(state, reason)
  })
}

/**
 * The XML of the live domain, or of the defined one if the domain is not running or `inactive` is set. Undefined if it
 * does not exist. For the live domain, libvirtd waits for QEMU.
 */
export async function readXml(
  client: Pick<Client, 'read'>,
  dom: DomainRef,
  options: { inactive?: boolean; deadlineMs?: number } = {},
): Promise<string | undefined> {
  return unlessError(errorCodes.noDomain, async () => {
    const flags = options.inactive === true ? xmlInactive : 0
    return readText((await client.read('domain_get_xml_desc', { dom, flags }, options.deadlineMs)).xml)
  })
}

/** The disks with an error. libvirtd waits for QEMU. */
export async function readDiskErrors(client: Client, dom: DomainRef, deadlineMs?: number): Promise<DiskError[]> {
  const args = { dom, maxerrors: mostDiskErrors, flags: 0 }
  const { errors } = await client.read('domain_get_disk_errors', args, deadlineMs)
  if (!Array.isArray(errors)) throw new ProtocolError('the reply has no list of errors')
  return errors.map(readDiskError)
}

function readDiskError(value: Value): DiskError {
  if (typeof value === 'object' && value !== null && 'disk' in value && typeof value['disk'] === 'string') {
    return { target: value['disk'], isFull: value['error'] === noSpace }
  }
  throw new ProtocolError('the reply has no error of a disk')
}

/** libvirtd waits for QEMU. */
export async function readDiskSize(client: Client, dom: DomainRef, target: string): Promise<DiskSize> {
  const { capacity, physical } = await client.read('domain_get_block_info', { dom, path: target, flags: 0 })
  if (typeof capacity !== 'bigint' || typeof physical !== 'bigint') throw new ProtocolError('the reply has no size')
  return { capacity, physical }
}

/** Changes the size that a running guest sees. The guest notices it at once. */
export async function resizeDisk(client: Client, dom: DomainRef, target: string, bytes: bigint): Promise<void> {
  await client.mutate('domain_block_resize', { dom, disk: target, size: bytes, flags: resizeInBytes })
}

/**
 * Changes the medium of the drive with the target of this disk. The guest is asked to open a tray that it has locked;
 * libvirt waits some seconds for it.
 */
export async function changeMedium(client: Client, dom: DomainRef, xml: string): Promise<void> {
  await client.mutate('domain_update_device_flags', { dom, xml, flags: affectLive | affectConfig }, mediumDeadlineMs)
}

/** Adds a device to the running guest, until it ends. */
export async function attachDevice(client: Client, dom: DomainRef, xml: string): Promise<void> {
  await client.mutate('domain_attach_device_flags', { dom, xml, flags: affectLive }, mediumDeadlineMs)
}

/**
 * Asks the running guest to release a device, and waits some seconds for it. It can release it later, or never.
 */
export async function detachDevice(client: Client, dom: DomainRef, alias: string): Promise<void> {
  await client.mutate('domain_detach_device_alias', { dom, alias, flags: affectLive }, mediumDeadlineMs)
}

/**
 * Whether QEMU itself has the device with an alias. libvirt does not know of one that an earlier libvirtd was attaching
 * when it ended. Marks the domain as tainted in libvirt's log.
 */
export async function hasQemuDevice(client: Client, dom: DomainRef, alias: string): Promise<boolean> {
  const cmd = JSON.stringify({ execute: 'qom-list', arguments: { path: '/machine/peripheral' } })
  const { result } = await client.read('qemu_domain_monitor_command', { dom, cmd, flags: 0 })
  const devices: unknown = typeof result === 'string' ? JSON.parse(result).return : undefined
  if (!Array.isArray(devices)) throw new Error('QEMU did not list its devices')
  return devices.some((device) => isRecord(device) && device['name'] === alias)
}

/** Continues a paused guest. Operations on disks that failed are repeated. */
export async function resumeDomain(client: Client, dom: DomainRef): Promise<void> {
  await client.mutate('domain_resume', { dom })
}

/** Presses the power button. The guest can ignore it. Resolves once QEMU responds, no matter how late. */
export async function shutdownDomain(client: Client, dom: DomainRef): Promise<void> {
  await client.mutate('domain_shutdown_flags', { dom, flags: shutdownAcpiPowerButton }, Infinity)
}

/**
 * Makes a round trip to QEMU's monitor; libvirt reports a state from its own memory. Resolves once QEMU responds, no
 * matter how late.
 */
export async function pingQemu(client: Client, dom: DomainRef): Promise<void> {
  await client.read('domain_get_iothread_info', { dom, flags: affectLive }, Infinity)
}

/** Ends QEMU by SIGTERM, so that it flushes its disks; fails if it does not end in time. */
export async function destroyDomain(client: Client, dom: DomainRef): Promise<void> {
  await destroy(client, dom, destroyGraceful, destroyDeadlineMs)
}

/** Ends QEMU, by SIGKILL if necessary. */
export async function killDomain(client: Client, dom: DomainRef): Promise<void> {
  await destroy(client, dom, 0, killDeadlineMs)
}

/**
 * Also succeeds if the domain is not running. A daemon that has just restarted reports that even for a domain that it
 * does destroy: it kills QEMU first, and then notices that the domain has ended.
 */
async function destroy(client: Client, dom: DomainRef, flags: number, deadlineMs: number): Promise<void> {
  await unlessError(errorCodes.operationInvalid, () =>
    client.mutate('domain_destroy_flags', { dom, flags }, deadlineMs),
  )
}

export async function undefineDomain(client: Client, dom: DomainRef): Promise<void> {
  await client.mutate('domain_undefine_flags', { dom, flags: 0 })
}

/**
 * Opens a console or serial port as a stream of bytes in both directions, and disconnects any other client.
 * @param alias null: the first console or serial port
 */
export function openConsole(client: Client, dom: DomainRef, alias: string | null): Promise<Duplex> {
  return client.stream('domain_open_console', { dom, dev_name: alias, flags: consoleForce })
}

/** Begins a picture of the first screen, as the stream of a PNG. */
export function openScreenshot(client: Client, dom: DomainRef): Promise<Duplex> {
  return client.stream('domain_screenshot', { dom, screen: 0, flags: 0 })
}

async function unlessError<T>(code: number, run: () => Promise<T>): Promise<T | undefined> {
  try {
    return await run()
  } catch (error) {
    if (error instanceof LibvirtError && error.code === code) return undefined
    throw error
  }
}

function readRef(value: Value): DomainRef {
  if (typeof value === 'object' && value !== null && 'uuid' in value) {
    const { name, uuid, id } = value
    if (typeof name === 'string' && uuid instanceof Uint8Array && typeof id === 'number') return { name, uuid, id }
  }
  throw new ProtocolError('the reply has no domain')
}

function readText(value: Value): string {
  if (typeof value !== 'string') throw new ProtocolError('the reply has no text')
  return value
}
