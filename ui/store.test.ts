import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { isSame, store, type Stored } from './store.ts'

const shown: Stored = {
  kind: 'VirtualMachineConfig',
  metadata: { namespace: 'team', name: 'db', uid: 'shown', generation: 1, resourceVersion: '1' },
  spec: 'shown',
}
const edited = {
  kind: 'VirtualMachineConfig',
  metadata: { namespace: 'team', name: 'db' },
  spec: 'edited',
}

/** What the API server has now, and what was sent to it. */
let now: Stored
let sent: (readonly [method: string, path: string])[]

beforeEach(() => {
  now = shown
  sent = []
  vi.stubGlobal('location', { href: 'http://localhost/page/' })
  vi.stubGlobal('fetch', async ({ pathname }: URL, { method, body }: { method: string; body?: string }) => {
    sent.push([method, pathname])
    return Response.json(body === undefined ? now : JSON.parse(body))
  })
})
afterEach(() => void vi.unstubAllGlobals())

test('replaces what was shown', async () => {
  now = { ...shown, metadata: { ...shown.metadata, resourceVersion: '2' } }
  expect(await store('virtualmachineconfigs', edited, shown)).toMatchObject({ ...edited, metadata: now.metadata })
  const path = '/page/apis/virtset.io/v1alpha1/namespaces/team/virtualmachineconfigs/db'
  expect(sent).toEqual([
    ['GET', path],
    ['PUT', path],
    ['PUT', path],
  ])
})

test.each([
  ['was changed', { generation: 2 }],
  ['got a label', { labels: { a: 'b' } }],
  ['was replaced by another of its name', { uid: 'other' }],
])('an object that %s is not replaced', async (_, metadata) => {
  now = { ...shown, metadata: { ...shown.metadata, ...metadata } }
  await expect(store('virtualmachineconfigs', edited, shown)).rejects.toThrow(
    'db was changed by someone else meanwhile',
  )
  expect(sent.map(([method]) => method)).toEqual(['GET'])
})

test.each([
  ['itself', {}, {}, true],
  ['another name', {}, { name: 'db2' }, false],
  ['another namespace', {}, { namespace: 'prod' }, false],
  ['another kind', { kind: 'VirtualMachineGroup' }, {}, false],
])('a text of %s', (_, object, metadata, expected) => {
  expect(isSame({ ...edited, ...object, metadata: { ...edited.metadata, ...metadata } }, shown)).toBe(expected)
})
