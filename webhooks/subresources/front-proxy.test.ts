import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { beforeAll, describe, expect, test } from 'vitest'
import { createAuthority, createCertificate } from '../../cluster/certificates.ts'
import { identify, parseFrontProxy } from './front-proxy.ts'
import type { FrontProxy } from './front-proxy.ts'

const now = new Date('2030-01-01T00:00:00Z')
const later = now.getTime() + 1000

let certificate: X509Certificate
let frontProxy: FrontProxy

const data = (ca: string) => ({
  'requestheader-client-ca-file': ca,
  'requestheader-allowed-names': '["front-proxy-client"]',
  'requestheader-username-headers': '["X-Remote-User","X-Other-User"]',
  'requestheader-group-headers': '["X-Remote-Group"]',
  'requestheader-uid-headers': '["X-Remote-Uid"]',
  'requestheader-extra-headers-prefix': '["X-Remote-Extra-"]',
})

beforeAll(async () => {
  const authority = await createAuthority('front-proxy', now)
  const leaf = await createCertificate(authority, { commonName: 'front-proxy-client' }, now)
  certificate = new X509Certificate(leaf.certificate)
  const parsed = parseFrontProxy(data(authority.certificate))
  if (parsed === undefined) throw new Error('the front proxy could not be read')
  frontProxy = parsed
})

describe('who a user is', () => {
  test.each<[string, { readonly [name: string]: readonly string[] }, object | undefined]>([
    ['a name', { 'x-remote-user': ['jane'] }, { username: 'jane', groups: [] }],
    ['a name in another header', { 'x-remote-user': [''], 'x-other-user': ['jane'] }, { username: 'jane', groups: [] }],
    [
      'groups, each in a header',
      { 'x-remote-user': ['jane'], 'x-remote-group': ['a', 'b, c'] },
      { username: 'jane', groups: ['a', 'b, c'] },
    ],
    [
      'a uid and more',
      { 'x-remote-user': ['jane'], 'x-remote-uid': ['u'], 'x-remote-extra-example.org%2froles': ['x', 'y'] },
      { username: 'jane', groups: [], uid: 'u', extra: { 'example.org/roles': ['x', 'y'] } },
    ],
    [
      'an extra key that cannot be decoded',
      { 'x-remote-user': ['jane'], 'x-remote-extra-%zz': ['x'] },
      { username: 'jane', groups: [], extra: { '%zz': ['x'] } },
    ],
    ['no name', { 'x-remote-group': ['system:masters'] }, undefined],
  ])('%s', (_, headers, user) => {
    expect(identify(frontProxy, certificate, headers, later)).toEqual(user)
  })

  test('nobody without a certificate, or with one that has ended', () => {
    const headers = { 'x-remote-user': ['admin'] }
    expect(identify(frontProxy, undefined, headers, later)).toBeUndefined()
    expect(identify(frontProxy, certificate, headers, later + 20 * 365 * 24 * 3600 * 1000)).toBeUndefined()
    expect(identify({ ...frontProxy, allowedNames: ['somebody'] }, certificate, headers, later)).toBeUndefined()
    expect(identify({ ...frontProxy, allowedNames: [] }, certificate, headers, later)).toBeDefined()
  })
})

test.each([
  ['no data', {}],
  ['an authority that cannot be read', { ...data('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----') }],
  ['headers that are no JSON', { ...data(''), 'requestheader-username-headers': 'X-Remote-User' }],
])('%s is no front proxy', (_, given) => {
  expect(parseFrontProxy(given)).toBeUndefined()
})
