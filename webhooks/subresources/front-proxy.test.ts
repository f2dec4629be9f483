import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import { afterEach, beforeAll, describe, expect, test } from 'vitest'
import { createAuthority, createCertificate } from '../../cluster/certificates.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { createLogger } from '../../runtime/log.ts'
import { startFakeApiServer } from '../../test/fake-apiserver.ts'
import { fakeClock } from '../../test/fake-clock.ts'
import { until } from '../../test/until.ts'
import { identify, parseFrontProxy, readHeaders, watchFrontProxy } from './front-proxy.ts'
import type { FrontProxy } from './front-proxy.ts'

const now = new Date('2030-01-01T00:00:00Z')
const later = now.getTime() + 1000

let ca: string
let certificate: X509Certificate
let frontProxy: FrontProxy

const data = (file: string) => ({
  'requestheader-client-ca-file': file,
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
  ca = authority.certificate
  const parsed = parseFrontProxy(data(ca))
  if (parsed === undefined) throw new Error('the front proxy could not be read')
  frontProxy = parsed
})

describe('identify', () => {
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

  test('no user without a trusted, unexpired certificate of an allowed name', () => {
    const headers = { 'x-remote-user': ['admin'] }
    expect(identify(frontProxy, undefined, headers, later)).toBeUndefined()
    expect(identify(frontProxy, certificate, headers, later + 20 * 365 * 24 * 3600 * 1000)).toBeUndefined()
    expect(identify({ ...frontProxy, allowedNames: ['other'] }, certificate, headers, later)).toBeUndefined()
    expect(identify({ ...frontProxy, allowedNames: [] }, certificate, headers, later)).toBeDefined()
  })
})

describe('readHeaders', () => {
  test('reads each value of the headers that describe the user, and no others', () => {
    const raw = ['Accept', '*', 'X-Remote-User', 'jane', 'X-REMOTE-GROUP', 'a', 'x-remote-group', 'b, c']
    const others = Array.from({ length: 1000 }, (_, n) => [`a${n}`, 'x']).flat()
    expect(readHeaders(frontProxy, [...raw, ...others, 'X-Remote-Extra-Example.org%2fRoles', 'x'])).toEqual({
      'x-remote-user': ['jane'],
      'x-remote-group': ['a', 'b, c'],
      'x-remote-extra-example.org%2froles': ['x'],
    })
  })

  test('reads each value that is of interest once, and the values of others never', () => {
    const raw = ['Accept', '*', 'X-Remote-User', 'jane', 'X-Remote-Group', 'a']
    const read: string[] = []
    const counting = new Proxy(raw, {
      get: (target, key) => {
        if (typeof key === 'string' && /^\d+$/.test(key)) read.push(target[Number(key)]!)
        return Reflect.get(target, key)
      },
    })
    readHeaders(frontProxy, counting)
    expect(read).toEqual(['Accept', 'X-Remote-User', 'jane', 'X-Remote-Group', 'a'])
  })
})

test.each<[string, () => { readonly [key: string]: string }]>([
  ['no data', () => ({})],
  ['an unreadable authority', () => data('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----')],
  ['headers that are not JSON', () => ({ ...data(ca), 'requestheader-username-headers': 'X-Remote-User' })],
])('%s yields no front proxy', (_, given) => {
  expect(parseFrontProxy(given())).toBeUndefined()
})

test('ignores header names that are not strings', () => {
  const headers = { 'requestheader-username-headers': '["X-Remote-User", 7]' }
  expect(parseFrontProxy({ ...data(ca), ...headers })?.usernameHeaders).toEqual(['x-remote-user'])
})

const closing: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const close of closing.splice(0).toReversed()) await close()
})

/** X509Certificates of the same bytes are not equal: they cache what was read of them. */
const comparable = (proxy: FrontProxy | undefined) =>
  proxy && { ...proxy, authorities: proxy.authorities.map(({ fingerprint256 }) => fingerprint256) }

test('follows the ConfigMap, keeps its last state while it is deleted, and logs each change', async () => {
  const clock = fakeClock()
  const server = await startFakeApiServer({ now: () => clock.now() })
  const kube = createKubeClient({ access: server.access, userAgent: 'test', clock })
  const configMaps = '/api/v1/configmaps'
  const metadata = { namespace: 'kube-system', name: 'extension-apiserver-authentication' }
  const lines: { [key: string]: unknown }[] = []
  const log = createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } })
  let changes = 0
  const watch = watchFrontProxy(kube, log, clock, () => changes++)
  closing.push(
    () => server.close(),
    () => kube.close(),
    () => watch.stop(),
  )
  await watch.reflector.synced()
  expect(watch.current()).toBeUndefined()
  server.put(configMaps, { metadata, data: data(ca) })
  await until(() => changes === 1)
  expect(comparable(watch.current())).toEqual(comparable(frontProxy))
  server.remove(configMaps, metadata.namespace, metadata.name)
  server.put(configMaps, { metadata, data: { ...data(ca), 'requestheader-allowed-names': '[]' } })
  await until(() => changes === 2)
  expect(comparable(watch.current())).toEqual({ ...comparable(frontProxy), allowedNames: [] })
  const expected = { msg: 'front proxy changed', authorities: ['CN=front-proxy'] }
  expect(lines.filter(({ msg }) => msg === expected.msg)).toMatchObject([expected, expected])
})
