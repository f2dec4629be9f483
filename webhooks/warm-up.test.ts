import { expect, test } from 'vitest'
import { warmUp } from './warm-up.ts'

test('the VMs of nobody’s are well, so that what completes is warm and not what refuses; others are served meanwhile', async () => {
  let isWarm = false
  warmUp(() => {
    isWarm = true
  })
  let turns = 0
  while (!isWarm) {
    await new Promise(setImmediate)
    turns += 1
  }
  expect(turns).toBeGreaterThan(300)
})
