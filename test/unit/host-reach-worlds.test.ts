import fc from 'fast-check'
import { expect, test } from 'vitest'
import { play } from '../reach/play.ts'
import { worlds } from '../reach/worlds.ts'

test('no VM is stored with host reach that no cluster preset states for it', () => {
  const tally = { sent: 0, stored: 0, reaching: 0 }
  fc.assert(
    fc.property(worlds, (world) => {
      const { sent, stored, reaching, fault } = play(world)
      tally.sent += sent
      tally.stored += stored
      tally.reaching += reaching
      expect(fault).toBeUndefined()
    }),
    { numRuns: 150 },
  )
  // Otherwise the property would be empty.
  expect(tally.reaching).toBeGreaterThan(tally.sent / 20)
})
