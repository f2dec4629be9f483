import { expect, test } from 'vitest'
import { warmUp } from './warm-up.ts'

test('the VMs of nobody’s are well, so that what completes is warm and not what refuses', () => {
  expect(warmUp()).toBeUndefined()
})
