import { expect, test } from 'vitest'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { createPendingPresets } from './pending-presets.ts'

const watched = (waiting: Promise<void> | undefined) => {
  const state = { isOver: waiting === undefined }
  void waiting?.then(() => {
    state.isOver = true
  })
  return state
}

const nothing = () => 0

test('without pending presets nothing waits', () => {
  expect(createPendingPresets(fakeClock()).wait('ns')).toBe(undefined)
})

test('waits until the watch has reported all presets that were admitted', async () => {
  const clock = fakeClock()
  const pending = createPendingPresets(clock)
  pending.expect('a', 0)
  pending.expect('ns/b', 0)
  const waiting = watched(pending.wait('ns'))
  pending.arrived('a', nothing)
  pending.arrived('other', nothing)
  await settle()
  expect(waiting.isOver).toBe(false)
  pending.arrived('ns/b', nothing)
  await settle()
  expect([waiting.isOver, pending.wait('ns'), clock.pending()]).toEqual([true, undefined, 0])
})

test('waits at most 300 ms for a preset that never comes', async () => {
  const clock = fakeClock()
  const pending = createPendingPresets(clock)
  pending.expect('a', 0)
  await clock.advance(200)
  pending.expect('a', 0)
  const waiting = watched(pending.wait('ns'))
  await clock.advance(299)
  expect(waiting.isOver).toBe(false)
  await clock.advance(1)
  expect([waiting.isOver, pending.wait('ns')]).toEqual([true, undefined])
})

test('waits for presets of the namespace and of the cluster alone', () => {
  const pending = createPendingPresets(fakeClock())
  pending.expect('ns/a', 0)
  expect([pending.wait('ns'), pending.wait('n'), pending.wait('other')]).toEqual([
    expect.any(Promise),
    undefined,
    undefined,
  ])
  pending.expect('ns', 0)
  expect([pending.wait('n'), pending.wait('other')]).toEqual([expect.any(Promise), expect.any(Promise)])
})

test('counts a preset of a namespace until it arrives, or for a minute', async () => {
  const clock = fakeClock()
  const pending = createPendingPresets(clock)
  pending.expect('ns/a', 1)
  pending.expect('ns/b', 2)
  pending.expect('other/c', 4)
  pending.expect('d', 8)
  pending.arrived('ns/b', () => 2)
  await clock.advance(30_000)
  // Both can be stored last.
  pending.expect('ns/e', 32)
  pending.expect('ns/e', 16)
  expect([pending.sizes('ns'), pending.sizes('n')]).toEqual([
    new Map([
      ['ns/a', 1],
      ['ns/e', 32],
    ]),
    new Map(),
  ])
  await clock.advance(30_000)
  expect([pending.sizes('ns'), pending.sizes('other')]).toEqual([new Map([['ns/e', 32]]), new Map()])
})

test('counts each write of a preset until this one arrives: another can be stored later', () => {
  const pending = createPendingPresets(fakeClock())
  const counted = () => pending.sizes('ns').get('ns/a')
  // The second is refused if the first exists by then, unless that was deleted.
  for (const size of [64, 64, 1]) pending.expect('ns/a', size)
  const found = [1, 0, 64, 0, 64].map((size) => {
    pending.arrived('ns/a', () => size)
    return counted()
  })
  expect(found).toEqual([64, 64, 64, 64, undefined])
})
