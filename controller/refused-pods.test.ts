import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { storedVm } from '../test/stored-vm.ts'
import { createRefusedPods } from './refused-pods.ts'

const vm = (uid: string, generation = 1) => storedVm({ metadata: { uid, generation } })

test('a refused pod is not created again before its time', async () => {
  const clock = fakeClock()
  const refused = createRefusedPods(clock)
  expect(refused.leftMs(vm('a'))).toBe(0)
  refused.note(vm('a'), 5000)
  await clock.advance(2000)
  expect([refused.leftMs(vm('a')), refused.untilMs(vm('a')), refused.untilMs(vm('b'))]).toEqual([3000, 5000, 0])
  await clock.advance(3000)
  expect(refused.leftMs(vm('a'))).toBe(0)
})

test.each<[string, (refused: ReturnType<typeof createRefusedPods>) => number]>([
  ['the spec has changed', (refused) => refused.leftMs(vm('a', 2))],
  [
    'the pod was created, or the VM deleted',
    (refused) => {
      refused.forget('a')
      return refused.leftMs(vm('a'))
    },
  ],
])('is created at once if %s', (_, leftMs) => {
  const refused = createRefusedPods(fakeClock())
  refused.note(vm('a'), 5000)
  expect(leftMs(refused)).toBe(0)
})

test('a pod that is refused again and again is created less and less often', async () => {
  const clock = fakeClock()
  const refused = createRefusedPods(clock)
  const waits: number[] = []
  for (const lastedMs of [0, 2000, 2000, 2000, 2000, 300_000, 2000]) {
    await clock.advance(refused.leftMs(vm('a'), 'p') + lastedMs)
    refused.noteInRow(vm('a'), 30_000, 'p')
    waits.push(refused.leftMs(vm('a'), 'p'))
    // A watch that is late shows the same pod once more.
    refused.noteInRow(vm('a'), 30_000, 'p')
  }
  expect(waits).toEqual([30_000, 60_000, 120_000, 120_000, 120_000, 30_000, 60_000])
})
