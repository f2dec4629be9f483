import { expect, test } from 'vitest'
import { tenantOfRequest } from '../tenant-requests.ts'
import { headOf } from './head.ts'

/** In the order of Go's `AdmissionRequest`. */
const reviewOf = (given: object, object: unknown = { kind: 'VirtualMachine' }) =>
  JSON.stringify({
    kind: 'AdmissionReview',
    apiVersion: 'admission.k8s.io/v1',
    request: {
      uid: 'u',
      kind: { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' },
      name: 'web',
      namespace: 'shop',
      operation: 'CREATE',
      userInfo: { username: 'jane', groups: ['g'] },
      ...given,
      object,
      oldObject: null,
    },
  })

test.each<[string, object, string]>([
  ['a VM', {}, 'namespace shop jane'],
  ['a cluster-scoped object', { namespace: '' }, 'user jane jane'],
  ['a Namespace', { kind: { kind: 'Namespace' }, namespace: 'invented' }, 'user jane jane'],
  [
    'a user with a thousand groups',
    { userInfo: { username: 'jane', groups: Array.from({ length: 1015 }, () => 'g'.repeat(100)) } },
    'namespace shop jane',
  ],
  ['a name that looks like what follows', { name: '","namespace":"other","object":{' }, 'namespace shop jane'],
])('the head of the review of %s', (_, given, expected) => {
  const head = headOf(reviewOf(given, { metadata: { namespace: 'other' }, request: { namespace: 'other' } }))
  expect(head && `${tenantOfRequest(head)} ${head.user.username}`).toBe(expected)
})

test.each([
  ['no review', '{"a":1,"object":{}}'],
  ['no object', '{"kind":"AdmissionReview"}'],
  ['a review whose name takes longer to parse than a turn', reviewOf({ name: '<'.repeat(3_000_000) })],
  ['no JSON', ',"object":'],
  ['a user with such an extra', reviewOf({ userInfo: { username: 'jane', extra: { a: ['b'], object: ['c'] } } })],
])('there is no head in %s', (_, text) => {
  expect(headOf(text)).toBe(undefined)
})
