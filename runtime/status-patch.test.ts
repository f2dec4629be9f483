import { expect, test } from 'vitest'
import { statusPatch } from './status-patch.ts'

test.each<[string, object | undefined, object, object[]]>([
  [
    'all of a first status',
    undefined,
    { phase: 'Running' },
    [{ op: 'add', path: '/status', value: { phase: 'Running' } }],
  ],
  [
    'what differs',
    { phase: 'Running', reason: 'A', domain: { digest: 'x' }, interfaces: [] },
    { phase: 'Failed', domain: { digest: 'x' }, interfaces: [{ name: 'net0' }] },
    [
      { op: 'add', path: '/status/phase', value: 'Failed' },
      { op: 'add', path: '/status/interfaces', value: [{ name: 'net0' }] },
      { op: 'add', path: '/status/reason', value: null },
      { op: 'remove', path: '/status/reason' },
    ],
  ],
])('a patch has %s', (_, status, after, expected) => {
  expect(statusPatch(status === undefined ? {} : { status }, after)).toEqual(expected)
})
