import { expect, test } from 'vitest'
import { fakeClock } from '../test/fake-clock.ts'
import { createSessionAccess } from './session-access.ts'

const account = 'system:serviceaccount:virtset-system:virtset-webhooks'
const good = { authenticated: true, audiences: ['virtset-handler'], user: { username: account } }

function accessWith(status: object) {
  const requests: unknown[] = []
  const kube = {
    request: (...request: unknown[]) => {
      requests.push(request)
      return Promise.resolve({ status })
    },
  }
  const accessOf = createSessionAccess(kube, fakeClock(), account)
  return { requests, access: (token: string) => accessOf(token, '10.0.0.1') }
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

test('asks for the audience of handlers', async () => {
  const { requests, access } = accessWith(good)
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
})
