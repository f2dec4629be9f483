import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createRecall } from './recall.ts'

const machine = {
  metadata: { name: 'a', labels: { x: 'y' }, uid: '1' },
  spec: { domain: { type: 'qemu', list: [1, { a: 1, b: 2 }] } },
}

test('knows what was kept, in whatever order its keys are, whatever else the API server adds', () => {
  const recall = createRecall(fakeClock())
  recall.keep('ns', machine)
  const again = {
    spec: { domain: { list: [1, { b: 2, a: 1 }], type: 'qemu' } },
    metadata: { labels: { x: 'y' }, name: 'a', generation: 1 },
  }
  expect(recall.has('ns', again)).toBe(true)
})

test.each<[string, string, unknown]>([
  ['in another namespace', 'other', machine],
  ['by another name', 'ns', { ...machine, metadata: { ...machine.metadata, name: 'b' } }],
  ['with another label', 'ns', { ...machine, metadata: { ...machine.metadata, labels: { x: 'z' } } }],
  ['with an annotation', 'ns', { ...machine, metadata: { ...machine.metadata, annotations: { x: 'z' } } }],
  ['with another spec', 'ns', { ...machine, spec: { domain: { type: 'qemu', list: [1, { a: 1 }] } } }],
  [
    'with a list for an object',
    'ns',
    {
      ...machine,
      spec: {
        domain: {
          type: 'qemu',
          list: [
            1,
            [
              ['a', 1],
              ['b', 2],
            ],
          ],
        },
      },
    },
  ],
  ['as nothing', 'ns', null],
])('does not know it %s', (_, namespace, other) => {
  const recall = createRecall(fakeClock())
  recall.keep('ns', machine)
  expect(recall.has(namespace, other)).toBe(false)
})

test('knows it by the name that the API server makes of generateName', () => {
  const recall = createRecall(fakeClock())
  const { name: _none, ...metadata } = machine.metadata
  recall.keep('ns', { ...machine, metadata: { ...metadata, generateName: 'a-' } })
  expect(recall.has('ns', { ...machine, metadata: { ...metadata, generateName: 'a-', name: 'a-x7k2p' } })).toBe(true)
})

test('forgets after a moment, and the oldest of many', async () => {
  const clock = fakeClock()
  // The cache treats the time 0 as unset.
  await clock.advance(1)
  const recall = createRecall(clock, 1000)
  recall.keep('ns', machine)
  await clock.advance(15_001)
  expect(recall.has('ns', machine)).toBe(false)
  for (let index = 0; index < 20; index++) recall.keep(`${index}`, machine)
  expect([recall.has('0', machine), recall.has('19', machine)]).toEqual([false, true])
})
