import { expect, test } from 'vitest'
import type { GuestMetrics } from '../api/guest-metrics.ts'
import { bytesText, linesOf, mostSamples, shareText, withSample, type Sample } from './usage.ts'

/** Metrics after so many seconds, in which each counter has grown by 1,000 a second. */
const after = (seconds: number, memory = {}): GuestMetrics => ({
  kind: 'VirtualMachineMetrics',
  apiVersion: 'subresources.virtset.io/v1alpha1',
  time: new Date(seconds * 1000).toISOString(),
  cpu: { usageSeconds: seconds / 4, count: 2 },
  memory: { totalBytes: 1000, residentBytes: 1200, ...memory },
  disks: ['vda', 'vdb'].map((target) => ({
    target,
    readBytes: 1000 * seconds,
    writtenBytes: 500 * seconds,
    reads: 0,
    writes: 0,
  })),
  network: [{ name: 'eth0', receivedBytes: 10 * seconds, sentBytes: 0 }],
})

const first: Sample = {
  atMs: 0,
  cpus: undefined,
  memoryBytes: 1200,
  readPerSecond: undefined,
  writtenPerSecond: undefined,
  receivedPerSecond: undefined,
  sentPerSecond: undefined,
}

test('the first sample has no rates', () => {
  expect(withSample([], after(0), undefined)).toEqual([first])
})

test('rates are those since the metrics before, of all disks and devices together', () => {
  expect(withSample([first], after(5, { usedBytes: 700 }), after(0)).at(-1)).toEqual({
    atMs: 5000,
    cpus: 0.25,
    memoryBytes: 700,
    readPerSecond: 2000,
    writtenPerSecond: 1000,
    receivedPerSecond: 10,
    sentPerSecond: 0,
  })
})

test('counters that went back, and a clock that did, have no rate', () => {
  expect(withSample([], { ...after(1), time: after(9).time }, after(5)).at(-1)).toMatchObject({
    cpus: undefined,
    readPerSecond: undefined,
    sentPerSecond: 0,
  })
  expect(withSample([], after(1), after(5)).at(-1)).toMatchObject({ cpus: undefined, sentPerSecond: undefined })
})

test('the same metrics are no further sample, and the oldest samples are dropped', () => {
  expect(withSample([first], after(0), after(0))).toEqual([first])
  const full = Array.from({ length: mostSamples }, (_, index) => ({ ...first, atMs: index }))
  const samples = withSample(full, after(100), undefined)
  expect([samples.length, samples[0]?.atMs, samples.at(-1)?.atMs]).toEqual([mostSamples, 1, 100_000])
})

test.each([
  [0, '0 B'],
  [1023, '1023 B'],
  [1536, '1.5 KiB'],
  [268_435_456, '256 MiB'],
  [2 ** 60, '1048576 TiB'],
])('%d bytes are %s', (bytes, text) => {
  expect(bytesText(bytes)).toBe(text)
})

test('a share is a percentage', () => {
  expect([shareText(0), shareText(0.374), shareText(1)]).toEqual(['0 %', '37 %', '100 %'])
})

test('lines end at the right, gaps divide them, and no value leaves the box', () => {
  const box = { top: 2, width: mostSamples - 1, height: 10 }
  expect(linesOf([], box)).toEqual([])
  expect(linesOf([0, 1, undefined, 2, 9], box)).toEqual(['55.0,10.0 56.0,5.0', '58.0,0.0 59.0,0.0'])
})
