import { expect, test } from 'vitest'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { createTenantRequests } from '../tenant-requests.ts'
import { createMayAccess as createMayAccessOf, type Access } from './permission.ts'
import type { User } from './request.ts'

const jane = { username: 'jane', groups: ['a'], uid: 'u', extra: { scopes: ['x'] } }
/** For requests of one tenant. */
function createMayAccess(
  kube: Parameters<typeof createTenantRequests>[0],
  clock: Parameters<typeof createMayAccessOf>[1],
) {
  const mayAccess = createMayAccessOf(createTenantRequests(kube), clock)
  return (user: User, wanted: Access, tenant = 'shop') => mayAccess(user, wanted, { tenant })
}

const access = { verb: 'exempt', resource: 'virtualmachinepresets', namespace: 'shop', name: 'small' }

test('sends a SubjectAccessReview with the whole user, and caches its result for ten seconds', async () => {
  const clock = fakeClock()
  // The cache treats the time 0 as unset.
  await clock.advance(1)
  const sent: unknown[] = []
  const mayAccess = createMayAccess(
    {
      request: (_, path, body) => {
        sent.push([path, body])
        return Promise.resolve({ status: { allowed: sent.length === 1 } })
      },
    },
    clock,
  )
  expect([await mayAccess(jane, access), await mayAccess(jane, { ...access })]).toEqual([true, true])
  expect(sent).toEqual([
    [
      '/apis/authorization.k8s.io/v1/subjectaccessreviews',
      {
        apiVersion: 'authorization.k8s.io/v1',
        kind: 'SubjectAccessReview',
        spec: {
          user: 'jane',
          groups: ['a'],
          uid: 'u',
          extra: { scopes: ['x'] },
          resourceAttributes: { group: 'virtset.io', version: '*', ...access },
        },
      },
    ],
  ])
  expect(await mayAccess({ ...jane, groups: [] }, access)).toBe(false)
  await clock.advance(10_001)
  expect([await mayAccess(jane, access), sent.length]).toEqual([false, 3])
})

test.each([
  { username: 'joe' },
  { uid: 'another jane, created again' },
  { groups: ['b'] },
  { extra: { scopes: ['y'] } },
  { extra: {} },
])('does not use the result of another user for %j', async (other) => {
  let sent = 0
  const request = () => Promise.resolve({ status: { allowed: sent++ === 0 } })
  const mayAccess = createMayAccess({ request }, fakeClock())
  expect([await mayAccess(jane, access), await mayAccess({ ...jane, ...other }, access)]).toEqual([true, false])
})

test.each([null, {}, { status: null }, { status: { allowed: 'true' } }])(
  'any other response denies access: %j',
  async (response) => {
    const mayAccess = createMayAccess({ request: () => Promise.resolve(response) }, fakeClock())
    expect(await mayAccess(jane, access)).toBe(false)
  },
)

test('sends one request for concurrent equal reviews, and another one after a failure', async () => {
  const sent: PromiseWithResolvers<unknown>[] = []
  const request = () => {
    sent.push(Promise.withResolvers())
    return sent.at(-1)?.promise ?? Promise.reject(new Error('nothing was sent'))
  }
  const mayAccess = createMayAccess({ request }, fakeClock())
  const failing = [mayAccess(jane, access), mayAccess(jane, access)]
  await settle()
  expect(sent.length).toBe(1)
  sent[0]?.reject(new Error('away'))
  expect((await Promise.allSettled(failing)).map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  const both = [mayAccess(jane, access), mayAccess(jane, access)]
  await settle()
  expect(sent.length).toBe(2)
  sent[1]?.resolve({ status: { allowed: true } })
  expect(await Promise.all(both)).toEqual([true, true])
})

test('caches 128 results of each tenant, and no tenant displaces those of another', async () => {
  let sent = 0
  const request = () => Promise.resolve({ status: { allowed: sent++ >= 0 } })
  const mayAccess = createMayAccess({ request }, fakeClock())
  await mayAccess(jane, access, 'other')
  for (let index = 0; index <= 128; index++) await mayAccess(jane, { ...access, name: `p${index}` })
  await mayAccess(jane, access, 'other')
  await mayAccess(jane, { ...access, name: 'p1' })
  expect(sent).toBe(130)
  await mayAccess(jane, { ...access, name: 'p0' })
  expect(sent).toBe(131)
})

test('caches the results of 128 tenants', async () => {
  let sent = 0
  const request = () => Promise.resolve({ status: { allowed: sent++ >= 0 } })
  const mayAccess = createMayAccess({ request }, fakeClock())
  for (let index = 0; index <= 128; index++) await mayAccess(jane, access, `t${index}`)
  await mayAccess(jane, access, 't1')
  expect(sent).toBe(129)
  await mayAccess(jane, access, 't0')
  expect(sent).toBe(130)
})
