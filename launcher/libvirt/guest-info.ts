import { longestVirtioSerial } from '../../api/attached-volume.ts'
import { shorten } from '../../api/shorten.ts'
import { AgentUnclear, AgentUnresponsive, isAgentLate } from './agent-errors.ts'
import type { Connection } from './connection.ts'
import type { DomainRef } from './domain.ts'
import { LibvirtError } from './errors.ts'
import { paramsOf, type Params } from './typed-params.ts'
import type { Value } from './xdr.ts'

/** `types` of libvirt's virDomainGetGuestInfo. */
const types = { os: 2, hostname: 8, interfaces: 64 } as const
export type GuestQuestion = keyof typeof types

/** What the agent claims; nothing is checked. */
export interface GuestAnswer {
  hostname?: Value
  os?: { [key: string]: Value }
  interfaces?: { mac: Value; ips: Value[] }[]
}

/** How long libvirt waits for each reply of the agent; without it, it would wait forever. */
const agentTimeoutSeconds = 5
/** libvirt first synchronizes with the agent, which can take as long again. */
const deadlineMs = 20_000

/** More are never read, whatever numbers the guest reports. */
const maxInterfaces = 32
const maxAddresses = 16

/**
 * Asks the agent. A question that it does not support stays without an answer.
 * @throws AgentUnresponsive, ConnectionLost
 */
export async function askAgent(
  connection: Pick<Connection, 'call'>,
  dom: DomainRef,
  questions: readonly GuestQuestion[],
): Promise<GuestAnswer> {
  await connection.call('domain_agent_set_response_timeout', { dom, timeout: agentTimeoutSeconds, flags: 0 })
  const answer: GuestAnswer = {}
  for (const question of questions) {
    try {
      const reply = await connection.call(
        'domain_get_guest_info',
        { dom, types: types[question], flags: 0 },
        deadlineMs,
      )
      Object.assign(answer, readers[question](paramsOf(reply.params)))
    } catch (error) {
      if (isAgentLate(error))
        throw new AgentUnresponsive(`the agent did not answer the question for ${question}`, { cause: error })
      if (!(error instanceof LibvirtError)) throw error
    }
  }
  return answer
}

/** `types` of virDomainGetGuestInfo: the mounted file systems. */
const filesystems = 16
const maxFilesystems = 256
const maxDisks = 64
/** Characters of a mount point in a message. */
const longestMountPoint = 128
/** Mount points in a message. */
const mostNamed = 4

/** How a guest can recognize a disk. */
export interface GuestDisk {
  /** The target, such as `sda`. */
  readonly dev: string
  readonly bus: string
  readonly serial?: string
}

/**
 * Where the guest has mounted file systems on a disk, also on parts and combinations of it. libvirt recognizes a disk by
 * its PCI address, and the guest can number buses differently, such as behind a bridge: then only the driver of Linux or
 * a serial number shows on which disk a file system is.
 * @throws AgentUnclear if it may be mounted, AgentUnresponsive, LibvirtError if the agent refuses the question or does
 *   not know it, ConnectionLost
 */
export async function readMounts(
  connection: Pick<Connection, 'call'>,
  dom: DomainRef,
  disk: GuestDisk,
): Promise<readonly string[]> {
  try {
    await connection.call('domain_agent_set_response_timeout', { dom, timeout: agentTimeoutSeconds, flags: 0 })
    const reply = await connection.call('domain_get_guest_info', { dom, types: filesystems, flags: 0 }, deadlineMs)
    return mountsIn(paramsOf(reply.params), disk)
  } catch (error) {
    if (isAgentLate(error))
      throw new AgentUnresponsive('the agent did not answer the question for its file systems', { cause: error })
    throw error
  }
}

function mountsIn(params: Params, disk: GuestDisk): readonly string[] {
  const count = params.get('fs.count')
  if (typeof count === 'number' && count > maxFilesystems)
    throw new AgentUnclear(`the agent in the guest reports more than ${maxFilesystems} file systems`)
  const found = upTo(count, maxFilesystems).map((index) => {
    const disks = params.get(`fs.${index}.disk.count`)
    if (typeof disks === 'number' && disks > maxDisks)
      throw new AgentUnclear(`the agent in the guest reports a file system on more than ${maxDisks} disks`)
    const on = upTo(params.get(`fs.${index}.disk.count`), maxDisks).map((at) =>
      isOn(params, `fs.${index}.disk.${at}`, disk),
    )
    const mountPoint = params.get(`fs.${index}.mountpoint`)
    return { mountPoint: typeof mountPoint === 'string' ? shorten(mountPoint, longestMountPoint) : 'a file system', on }
  })
  const mounts = found.flatMap(({ mountPoint, on }) => (on.includes('this') ? [mountPoint] : []))
  const unclear = found.flatMap(({ mountPoint, on }) => (on.includes('unknown') ? [mountPoint] : []))
  if (mounts.length > 0 || unclear.length === 0) return mounts
  const named = unclear.slice(0, mostNamed).join(', ')
  throw new AgentUnclear(`the agent in the guest does not report clearly on which disk it has mounted ${named}`)
}

/** What Linux puts before the serial number of a SCSI disk: the type of its number, its vendor and its product. */
const linuxScsi = '0QEMU_QEMU_HARDDISK_'

/** With other numbers of buses, libvirt can also name another disk of the same bus. */
function isOn(params: Params, path: string, { dev, bus, serial }: GuestDisk): 'this' | 'another' | 'unknown' {
  const device = params.get(`${path}.device`)
  const driver = typeof device === 'string' ? /^\/dev\/(sd|vd|nvme|sr)[a-z\d]/.exec(device)?.[1] : undefined
  if (driver !== undefined && driver !== (bus === 'virtio' ? 'vd' : 'sd')) return 'another'
  const alias = params.get(`${path}.alias`)
  const byAlias = typeof alias !== 'string' ? 'unknown' : alias === dev ? 'this' : 'another'
  const reported = params.get(`${path}.serial`)
  if (serial === undefined || typeof reported !== 'string' || reported === '') return byAlias
  const known = bus === 'virtio' ? serial.slice(0, longestVirtioSerial) : serial
  if (reported === known || reported === linuxScsi + known) return 'this'
  // Linux reports them exactly, so it is that of another disk, even if libvirt does not recognize it.
  const isExact = driver === 'vd' || reported.startsWith(linuxScsi)
  if (isExact) return byAlias === 'this' ? 'unknown' : 'another'
  // Other guests can pad it, write it in capitals, or add words.
  const isSimilar = new RegExp(`(^|[^a-z0-9-])${RegExp.escape(known)}($|[^a-z0-9-])`, 'i').test(reported)
  if (isSimilar) return byAlias === 'another' ? 'unknown' : 'this'
  return byAlias === 'this' ? 'unknown' : 'another'
}

const readers: { readonly [question in GuestQuestion]: (params: Params) => GuestAnswer } = {
  hostname: (params) => given('hostname', params.get('hostname')),
  os: (params) => ({
    os: {
      ...given('id', params.get('os.id')),
      ...given('name', params.get('os.pretty-name') ?? params.get('os.name')),
      ...given('version', params.get('os.version-id')),
      ...given('kernel', params.get('os.kernel-release')),
    },
  }),
  interfaces: (params) => ({
    interfaces: upTo(params.get('if.count'), maxInterfaces).map((index) => ({
      mac: params.get(`if.${index}.hwaddr`) ?? null,
      ips: upTo(params.get(`if.${index}.addr.count`), maxAddresses).map(
        (address) => params.get(`if.${index}.addr.${address}.addr`) ?? null,
      ),
    })),
  }),
}

const given = (key: string, value: Value | undefined): { [key: string]: Value } =>
  value === undefined ? {} : { [key]: value }

const upTo = (count: Value | undefined, max: number): number[] =>
  Array.from({ length: typeof count === 'number' ? Math.min(count, max) : 0 }, (_, index) => index)
