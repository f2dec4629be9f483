import { expect, test } from 'vitest'
import { standingOf } from './phase.ts'

const started = { wasStarted: true, isShuttingDown: false }
const asked = { wasStarted: true, isShuttingDown: true }
const fresh = { wasStarted: false, isShuttingDown: false }

test.each([
  ['unknown to libvirt', undefined, started, { phase: 'Gone', reason: 'undefined', exit: 'Failed' }],
  ['running', 'running booted', started, { phase: 'Running', reason: 'booted' }],
  ['running after it was asked to end', 'running booted', asked, { phase: 'ShuttingDown', reason: 'booted' }],
  ['about to run', 'paused startingUp', fresh, { phase: 'Defined', reason: 'startingUp' }],
  ['out of space', 'paused ioerror', started, { phase: 'Paused', reason: 'ioerror' }],
  ['asleep', 'pmsuspended unknown', started, { phase: 'Paused', reason: 'unknown' }],
  ['on its way down', 'shutdown user', started, { phase: 'ShuttingDown', reason: 'user' }],
  ['defined', 'shutoff unknown', fresh, { phase: 'Defined', reason: 'unknown' }],
  ['powered off', 'shutoff shutdown', started, { phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' }],
  ['powered off as asked', 'shutoff shutdown', asked, { phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' }],
  ['destroyed', 'shutoff destroyed', asked, { phase: 'Shutoff', reason: 'destroyed', exit: 'Failed' }],
  ['killed', 'shutoff crashed', started, { phase: 'Shutoff', reason: 'crashed', exit: 'Failed' }],
  ['lost by the daemon', 'shutoff unknown', started, { phase: 'Shutoff', reason: 'unknown', exit: 'Failed' }],
  ['panicked and preserved', 'crashed panicked', started, { phase: 'Crashed', reason: 'panicked', exit: 'Failed' }],
  ['in a state newer than we are', '9 3', started, { phase: 'Defined', reason: '9 3' }],
])('a domain %s', (_, words, known, standing) => {
  const [state = '', reason = ''] = words?.split(' ') ?? []
  expect(standingOf(words === undefined ? undefined : { state, reason }, known)).toEqual(standing)
})
