import { expect, test } from 'vitest'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { CachedVm } from './slim-vm.ts'
import { statusWriteOf } from './status-write.ts'

const vmWith = (status: VirtualMachineStatus, more: { weight?: number } = {}): Persisted<CachedVm> => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default', uid: 'vm-1', resourceVersion: '7' },
  spec: { domain: {} },
  status,
  ...more,
})

const freeze = { id: 'one' }
const running = { phase: 'Running' } as const
const answer = (state: NonNullable<VirtualMachineStatus['frozen']>['state'], id = 'one') =>
  ({ ...running, freeze, frozen: { id, state } }) as const

test.each<[string, VirtualMachineStatus, VirtualMachineStatus, boolean]>([
  ['a start', { phase: 'Scheduled' }, running, true],
  ['a slow start', { phase: 'Scheduled' }, { phase: 'Scheduled', message: 'a' }, false],
  ['an end', running, { phase: 'Succeeded' }, true],
  ['an end before the start', { phase: 'Scheduled' }, { phase: 'Failed' }, true],
  ['another end', { phase: 'Failed' }, { phase: 'Succeeded' }, false],
  ['a change while it runs', running, { ...running, message: 'a' }, false],
  ['a node that responds again', { phase: 'Unknown' }, running, false],
  ['the beginning of a freeze', { ...running, freeze }, answer('Freezing'), false],
  ['a frozen guest', answer('Freezing'), answer('Frozen'), true],
  ['a refused freeze', { ...running, freeze }, answer('Failed'), true],
  ['a guest that is frozen again', answer('Frozen'), answer('Frozen'), false],
  ['another outcome of the same freeze', answer('Failed'), answer('Frozen'), false],
  ['a thawed guest', answer('Thawing'), answer('Thawed'), true],
  ['a freeze that has expired', answer('Frozen'), answer('Expired'), true],
  ['a guest that is frozen after it was thawed', answer('Thawed'), answer('Frozen'), false],
  ['another outcome of the same thaw', answer('Thawed'), answer('Expired'), false],
  ['an answer to another request', { ...running, freeze }, answer('Frozen', 'two'), false],
  ['an answer without a request', running, { ...running, frozen: { id: 'one', state: 'Frozen' } }, false],
  ['an answer to the next request', { ...answer('Thawed', 'zero'), freeze }, answer('Frozen'), true],
])('%s is awaited: %#', (_, before, after, expected) => {
  expect(statusWriteOf(vmWith(before), after).isAwaited).toBe(expected)
})

test('an update weighs what it writes, and at least as much as its VM', () => {
  const status = { ...running, domain: { list: Array.from({ length: 1000 }, () => 1) } }
  const { body, bytes, values, weight } = statusWriteOf(vmWith(running), status)
  expect(JSON.parse(body.toString())).toEqual([
    { op: 'test', path: '/metadata/uid', value: 'vm-1' },
    { op: 'replace', path: '/metadata/resourceVersion', value: '7' },
    { op: 'add', path: '/status/domain', value: status.domain },
  ])
  expect([values, weight]).toEqual([1004, bytes + 32 * 1004])
  // The patch has two operations more.
  expect(Math.abs(bytes - body.length)).toBeLessThan(200)
  expect(statusWriteOf(vmWith(running, { weight: 1_000_000 }), status).weight).toBe(1_000_000)
})
