import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createMayAccess } from './permission.ts'

const jane = { username: 'jane', groups: ['a'], uid: 'u', extra: { scopes: ['x'] } }
const access = { verb: 'exempt', resource: 'virtualmachinepresets', namespace: 'shop', name: 'small' }

test('asks the API server with all that is known of the user, and keeps its answer for ten seconds', async () => {
  const clock = fakeClock()
  const asked: unknown[] = []
  const mayAccess = createMayAccess(
    {
      request: (_, path, body) => {
        asked.push([path, body])
        return Promise.resolve({ status: { allowed: asked.length === 1 } })
      },
    },
    clock,
  )
  expect([await mayAccess(jane, access), await mayAccess(jane, { ...access })]).toEqual([true, true])
  expect(asked).toEqual([
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
  await clock.advance(10_000)
  expect([await mayAccess(jane, access), asked.length]).toEqual([false, 3])
})

test.each([null, {}, { status: null }, { status: { allowed: 'true' } }])(
  'anything but a yes is a no: %j',
  async (answer) => {
    const mayAccess = createMayAccess({ request: () => Promise.resolve(answer) }, fakeClock())
    expect(await mayAccess(jane, access)).toBe(false)
  },
)

test('keeps a thousand answers, not more', async () => {
  let asked = 0
  const request = () => Promise.resolve({ status: { allowed: asked++ >= 0 } })
  const mayAccess = createMayAccess({ request }, fakeClock())
  for (let index = 0; index <= 1000; index++) await mayAccess(jane, { ...access, name: `p${index}` })
  await mayAccess(jane, { ...access, name: 'p1' })
  expect(asked).toBe(1001)
  await mayAccess(jane, { ...access, name: 'p0' })
  expect(asked).toBe(1002)
})
