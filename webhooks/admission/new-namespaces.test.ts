import { expect, test } from 'vitest'
import type { Namespace } from '../../presets/candidates.ts'
import { ApiUnreachable } from '../../runtime/api-error.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { createNewNamespaces } from './new-namespaces.ts'

const shop: Namespace = { name: 'shop', labels: { team: 'a' } }

/** @param results of the reads, the last one repeated */
function world(...results: (Namespace | Error | undefined)[]) {
  const clock = fakeClock()
  const cached = new Set<string>()
  const reads: string[] = []
  const read = async (name: string) => {
    reads.push(name)
    const result = results[Math.min(reads.length, results.length) - 1]
    if (result instanceof Error) throw result
    return result
  }
  return { clock, cached, reads, namespaces: createNewNamespaces((name) => cached.has(name), read, clock) }
}

const outcomeOf = (waiting: Promise<void> | undefined) => {
  const state = { outcome: waiting === undefined ? 'none' : 'waiting' }
  void waiting?.then(
    () => (state.outcome = 'known'),
    (error: unknown) => (state.outcome = error instanceof ApiUnreachable ? 'unreachable' : 'failed'),
  )
  return state
}

test('nothing waits for a namespace that the watch has reported', () => {
  const { namespaces, cached, reads } = world(shop)
  cached.add('shop')
  expect([namespaces.wait('shop'), reads]).toEqual([undefined, []])
})

test('requests for a new namespace share one read, and later ones need none', async () => {
  const { namespaces, reads } = world(shop)
  const states = [outcomeOf(namespaces.wait('shop')), outcomeOf(namespaces.wait('shop'))]
  await settle()
  expect(states.map(({ outcome }) => outcome)).toEqual(['known', 'known'])
  expect([namespaces.wait('shop'), namespaces.get('shop'), reads]).toEqual([undefined, shop, ['shop']])
})

test('a namespace that was read is read again after ten seconds', async () => {
  const { namespaces, clock } = world(shop)
  // The LRU cache takes 0 for "no time".
  await clock.advance(1)
  await namespaces.wait('shop')
  await clock.advance(10_001)
  expect([namespaces.get('shop'), namespaces.wait('shop') === undefined]).toEqual([undefined, false])
})

test('a failed read is repeated with growing pauses, and the watch can end them', async () => {
  const { namespaces, clock, cached, reads } = world(new Error('down'))
  const state = outcomeOf(namespaces.wait('shop'))
  await clock.advance(50 + 150)
  expect([state.outcome, reads.length]).toEqual(['waiting', 3])
  cached.add('shop')
  await clock.advance(400)
  expect([state.outcome, reads.length]).toEqual(['known', 3])
})

test('a request is refused if the namespace stays unknown, and the next one reads again', async () => {
  const { namespaces, clock, reads } = world(undefined)
  const state = outcomeOf(namespaces.wait('shop'))
  await clock.advance(1500)
  expect([state.outcome, reads.length]).toEqual(['unreachable', 5])
  const next = outcomeOf(namespaces.wait('shop'))
  await settle()
  expect([next.outcome, reads.length]).toEqual(['waiting', 6])
})
