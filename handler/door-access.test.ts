import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createDoorAccess } from './door-access.ts'

const account = 'system:serviceaccount:virtset-system:virtset-webhooks'
const good = { authenticated: true, audiences: ['virtset-handler'], user: { username: account } }

function accessWith(status: object, answer: () => Promise<unknown> = async () => ({ status })) {
  const clock = fakeClock()
  const requests: unknown[] = []
  const kube = {
    request: (...request: unknown[]) => {
      requests.push(request)
      return answer()
    },
  }
  return { clock, requests, access: createDoorAccess(kube, clock, account) }
}

test.each([
  ['the account of the webhooks', good, 'allowed'],
  ['an invalid token', { authenticated: false }, 'forbidden'],
  ['another account', { ...good, user: { username: 'system:serviceaccount:default:default' } }, 'forbidden'],
  ['a token for another audience', { ...good, audiences: ['https://kubernetes.default.svc'] }, 'forbidden'],
  ['an authenticator that ignores audiences', { authenticated: true, user: good.user }, 'forbidden'],
  ['an empty status', {}, 'forbidden'],
])('%s', async (_, status, expected) => {
  expect(await accessWith(status).access('t')).toBe(expected)
})

test('asks for the audience of handlers, once a minute', async () => {
  const { clock, requests, access } = accessWith(good)
  // The cache takes 0 for unset.
  await clock.advance(1)
  await access('t')
  await access('t')
  expect(requests).toEqual([
    [
      'POST',
      '/apis/authentication.k8s.io/v1/tokenreviews',
      {
        apiVersion: 'authentication.k8s.io/v1',
        kind: 'TokenReview',
        spec: { token: 't', audiences: ['virtset-handler'] },
      },
    ],
  ])
  await clock.advance(60_001)
  await access('t')
  expect(requests.length).toBe(2)
})

test('reviews few tokens at once, and caches no error', async () => {
  const pending = Promise.withResolvers<unknown>()
  const { requests, access } = accessWith(good, () => pending.promise)
  const asked = ['a', 'b', 'c', 'd'].map((token) => access(token))
  expect(await access('e')).toBe('busy')
  pending.reject(new Error('no API server'))
  await Promise.allSettled(asked)
  await expect(access('e')).rejects.toThrow('no API server')
  expect(requests.length).toBe(5)
})
