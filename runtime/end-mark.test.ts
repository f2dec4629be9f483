import * as fc from 'fast-check'
import { expect, test } from 'vitest'
import { endMark, escaped, MarkedLog } from './end-mark.ts'

const bytes = fc.array(fc.oneof(fc.constantFrom(0x00, 0xff), fc.integer({ min: 0, max: 0xff })), { maxLength: 20 })

const sentOf = (log: readonly number[]) => Buffer.concat([escaped(Buffer.from(log)), endMark])

test('a log is read as it was written, however it is divided', () => {
  fc.assert(
    fc.property(bytes, fc.array(fc.nat(41)), (log, cuts) => {
      const sent = sentOf(log)
      const places = [0, ...cuts.filter((cut) => cut < sent.length).toSorted((a, b) => a - b)]
      const reader = new MarkedLog()
      const parts = places.map((from, index) => sent.subarray(from, places[index + 1]))
      const read = parts.map((part) => [...reader.read(Buffer.from(part))])
      expect([read.flat(), reader.isWhole]).toEqual([log, true])
    }),
  )
})

test('a part of a log is not whole', () => {
  fc.assert(
    fc.property(bytes, fc.nat(), (log, length) => {
      const sent = sentOf(log)
      const reader = new MarkedLog()
      reader.read(sent.subarray(0, length % sent.length))
      expect(reader.isWhole).toBe(false)
    }),
  )
})

test.each([
  ['bytes after its end', [0xff, 0x00, 0x61]],
  ['an unknown mark', [0xff, 0x01, 0xff, 0x00]],
])('a log with %s is not whole', (_, sent) => {
  const reader = new MarkedLog()
  reader.read(Buffer.from(sent))
  expect(reader.isWhole).toBe(false)
})
