import { expect, test } from 'vitest'
import type { StatusWrite } from './status-write.ts'
import { withoutUpdate, type Step } from './steps.ts'

const write: StatusWrite = { body: Buffer.from('[]'), bytes: 2, values: 1, weight: 34, isAwaited: false }
const update: Step = { do: 'updateStatus', write }
const event = (reason: string): Step => ({ do: 'recordEvent', type: 'Normal', reason, message: '' })
const requeue: Step = { do: 'requeueAfter', afterMs: 1 }
const shutDown: Step = { do: 'shutDownGuest', gracePeriodSeconds: 1 }
const release: Step = { do: 'releaseLauncher' }

test.each<[string, Step[], Step[]]>([
  ['nothing is left of an update alone', [update], []],
  ['the events of the update wait with it', [update, event('Started'), event('Attached'), requeue], [requeue]],
  [
    'other steps, and their events, do not',
    [update, event('Attached'), shutDown, event('ShuttingDown')],
    [shutDown, event('ShuttingDown')],
  ],
  ['a launcher is not released before its final status is stored', [update, event('Stopped'), release], []],
  ['steps without an update are all done', [event('Started'), requeue, release], [event('Started'), requeue, release]],
])('%s', (_, steps, expected) => {
  expect(withoutUpdate(steps)).toEqual(expected)
})
