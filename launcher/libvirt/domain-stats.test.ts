import { expect, test } from 'vitest'
import { readStats } from './domain-stats.ts'
import { ProtocolError } from './errors.ts'
import type { Value } from './xdr.ts'

const dom = { name: 'web', uuid: new Uint8Array(16), id: 1 }

const replyOf = (params: { readonly [field: string]: number | bigint | string }): Value => [
  { dom, params: Object.entries(params).map(([field, value]) => ({ field, value })) },
]

/** Reads from a daemon with this reply. */
const statsIn = (reply: Value) => {
  const call = (async () => ({ ret_stats: reply })) as never
  return readStats({ call }, dom)
}

test('statistics are in bytes and seconds', async () => {
  const reply = replyOf({
    'cpu.time': 1_500_000_000n,
    'vcpu.current': 2,
    'balloon.current': 262_144n,
    'balloon.rss': 300_000n,
    'balloon.available': 250_000n,
    'balloon.usable': 50_000n,
    'block.count': 1,
    'block.0.name': 'vda',
    'block.0.rd.bytes': 4096n,
    'block.0.rd.reqs': 1n,
    'block.0.wr.bytes': 512n,
    'block.0.wr.reqs': 3n,
  })
  expect(await statsIn(reply)).toEqual({
    cpu: { usageSeconds: 1.5, count: 2 },
    memory: { totalBytes: 268_435_456, usedBytes: 204_800_000, residentBytes: 307_200_000 },
    disks: [{ target: 'vda', readBytes: 4096, writtenBytes: 512, reads: 1, writes: 3 }],
  })
})

test('what a busy QEMU does not report is zero, and no used memory is claimed', async () => {
  expect(await statsIn(replyOf({ 'cpu.time': 0n, 'block.count': 1 }))).toEqual({
    cpu: { usageSeconds: 0, count: 1 },
    memory: { totalBytes: 0, residentBytes: 0 },
    disks: [{ target: '', readBytes: 0, writtenBytes: 0, reads: 0, writes: 0 }],
  })
})

test('a claimed number of disks is limited', async () => {
  const found = await statsIn(replyOf({ 'cpu.time': 0n, 'block.count': 4_000_000_000 }))
  expect(found?.disks).toHaveLength(64)
})

test('a domain that does not run has none', async () => {
  expect(await statsIn(replyOf({ 'state.state': 5 }))).toBe(undefined)
  expect(await statsIn([])).toBe(undefined)
  await expect(statsIn(null)).rejects.toThrow(ProtocolError)
})
