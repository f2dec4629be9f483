import type { DiskMetrics, GuestMetrics } from '../../api/guest-metrics.ts'
import type { Connection } from './connection.ts'
import type { DomainRef } from './domain.ts'
import { ProtocolError } from './errors.ts'
import { paramsOf, type Params } from './typed-params.ts'

/** `stats` of libvirt's virConnectGetAllDomainStats: CPU, balloon, virtual CPUs, blocks. */
const groups = 2 | 4 | 8 | 32
/** Reports less instead of waiting for a QEMU that is busy. */
const withoutWaiting = 1 << 29

/** Longer than the handler waits: what arrives late is for the next reader. */
const deadlineMs = 30_000
/** More are never read. */
const mostDisks = 64

export type DomainStats = Pick<GuestMetrics, 'cpu' | 'memory' | 'disks'>

/**
 * What a running domain has used; undefined if it does not run.
 * @throws LibvirtError, ConnectionLost, DeadlineExceeded
 */
export async function readStats(
  connection: Pick<Connection, 'call'>,
  dom: DomainRef,
): Promise<DomainStats | undefined> {
  const args = { doms: [dom], stats: groups, flags: withoutWaiting }
  const { ret_stats: records } = await connection.call('connect_get_all_domain_stats', args, deadlineMs)
  if (!Array.isArray(records)) throw new ProtocolError('the reply has no statistics')
  const [record] = records
  if (typeof record !== 'object' || record === null || !('params' in record)) return undefined
  const params = paramsOf(record['params'] ?? null)
  const cpuTimeNs = numberIn(params, 'cpu.time')
  if (cpuTimeNs === undefined) return undefined
  return {
    cpu: { usageSeconds: cpuTimeNs / 1e9, count: numberIn(params, 'vcpu.current') ?? 1 },
    memory: memoryIn(params),
    disks: disksIn(params),
  }
}

function memoryIn(params: Params): GuestMetrics['memory'] {
  const bytes = (name: string) => {
    const kibibytes = numberIn(params, `balloon.${name}`)
    return kibibytes === undefined ? undefined : kibibytes * 1024
  }
  const [available, usable] = [bytes('available'), bytes('usable')]
  return {
    totalBytes: bytes('current') ?? 0,
    ...(available === undefined || usable === undefined ? {} : { usedBytes: Math.max(0, available - usable) }),
    residentBytes: bytes('rss') ?? 0,
  }
}

function disksIn(params: Params): DiskMetrics[] {
  const count = Math.min(numberIn(params, 'block.count') ?? 0, mostDisks)
  return Array.from({ length: count }, (_, index) => {
    const counter = (name: string) => numberIn(params, `block.${index}.${name}`) ?? 0
    const target = params.get(`block.${index}.name`)
    return {
      target: typeof target === 'string' ? target : '',
      readBytes: counter('rd.bytes'),
      writtenBytes: counter('wr.bytes'),
      reads: counter('rd.reqs'),
      writes: counter('wr.reqs'),
    }
  })
}

function numberIn(params: Params, name: string): number | undefined {
  const value = params.get(name)
  return typeof value === 'number' || typeof value === 'bigint' ? Number(value) : undefined
}
