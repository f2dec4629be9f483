import { expect, test } from 'vitest'
import { parseDomainReport } from '../runtime/launcher-api.ts'
import protocol from './libvirt/protocol.json' with { type: 'json' }
import { phaseOf } from './phase.ts'

const started = { wasStarted: true, isShuttingDown: false, hasPoweredOff: false }
const requested = { ...started, isShuttingDown: true }
const fresh = { ...started, wasStarted: false }
const off = { ...started, hasPoweredOff: true }

test.each([
  [
    'unknown to libvirt',
    undefined,
    started,
    { phase: 'Gone', reason: 'undefined', exit: 'Failed', message: 'libvirt lost the domain' },
  ],
  ['running', 'running booted', started, { phase: 'Running', reason: 'booted' }],
  ['running after a shutdown request', 'running booted', requested, { phase: 'ShuttingDown', reason: 'booted' }],
  ['about to run', 'paused startingUp', fresh, { phase: 'Defined', reason: 'startingUp' }],
  ['out of space', 'paused ioerror', started, { phase: 'Paused', reason: 'ioerror' }],
  [
    'stopped by QEMU',
    'paused unknown',
    started,
    { phase: 'Paused', reason: 'unknown', message: expect.stringContaining('an internal error') },
  ],
  ['asleep', 'pmsuspended unknown', started, { phase: 'Paused', reason: 'unknown' }],
  ['on its way down', 'shutdown user', started, { phase: 'ShuttingDown', reason: 'user' }],
  ['defined', 'shutoff unknown', fresh, { phase: 'Defined', reason: 'unknown' }],
  ['powered off', 'shutoff shutdown', started, { phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' }],
  [
    'powered off on request',
    'shutoff shutdown',
    requested,
    { phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' },
  ],
  [
    'powered off while libvirtd was lost',
    'shutoff unknown',
    off,
    { phase: 'Shutoff', reason: 'shutdown', exit: 'Succeeded' },
  ],
  [
    'killed after it powered off',
    'shutoff crashed',
    off,
    {
      phase: 'Shutoff',
      reason: 'crashed',
      exit: 'Failed',
      message: 'the guest panicked, or QEMU crashed or was killed',
    },
  ],
  [
    'destroyed',
    'shutoff destroyed',
    requested,
    { phase: 'Shutoff', reason: 'destroyed', exit: 'Failed', message: 'QEMU was ended before the guest powered off' },
  ],
  [
    'killed',
    'shutoff crashed',
    started,
    {
      phase: 'Shutoff',
      reason: 'crashed',
      exit: 'Failed',
      message: 'the guest panicked, or QEMU crashed or was killed',
    },
  ],
  [
    'lost by the daemon',
    'shutoff unknown',
    started,
    { phase: 'Shutoff', reason: 'unknown', exit: 'Failed', message: 'QEMU had ended when libvirtd was restarted' },
  ],
  [
    'ended by a restarted libvirtd',
    'shutoff daemon',
    started,
    {
      phase: 'Shutoff',
      reason: 'daemon',
      exit: 'Failed',
      message:
        'libvirtd was restarted, could not reconnect to QEMU, and ended it; the log of the launcher pod has the cause',
    },
  ],
  [
    'ended for a reason that is newer than this version',
    'shutoff 42',
    started,
    { phase: 'Shutoff', reason: '42', exit: 'Failed', message: 'QEMU ended: 42' },
  ],
  [
    'panicked and preserved',
    'crashed panicked',
    started,
    { phase: 'Crashed', reason: 'panicked', exit: 'Failed', message: 'the guest panicked' },
  ],
  ['in a state that is newer than this version', '9 3', started, { phase: 'Defined', reason: '9 3' }],
])('a domain %s', (_, words, known, standing) => {
  const [state = '', reason = ''] = words?.split(' ') ?? []
  expect(phaseOf(words === undefined ? undefined : { state, reason }, known)).toEqual(standing)
})

test('handlers know every reason of libvirt with which a guest ends', () => {
  const ends = protocol.states.flatMap(({ name, reasons }) =>
    reasons.map((reason) => phaseOf({ state: name, reason }, started)).filter(({ exit }) => exit !== undefined),
  )
  const observed = { vmUID: 'u-1', observedAt: '2030-01-01T00:00:00Z' }
  expect(ends.map((end) => parseDomainReport({ ...observed, ...end }).reason)).toEqual(ends.map(({ reason }) => reason))
  expect(ends).toHaveLength(11)
})
