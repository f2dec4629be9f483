import { X509Certificate } from 'node:crypto'
import { TLSSocket } from 'node:tls'
import { PassThrough } from 'node:stream'
import { expect, test } from 'vitest'
import { createAuthority, createCertificate } from '../cluster/certificates.ts'
import { callerOf } from './caller.ts'

test('of a request, only the client certificate and the raw headers are read', async () => {
  const now = new Date()
  const authority = await createAuthority('front-proxy', now)
  const certificate = new X509Certificate(
    (await createCertificate(authority, { commonName: 'proxy' }, now)).certificate,
  )
  const socket = Object.assign(new TLSSocket(new PassThrough()), { getPeerX509Certificate: () => certificate })
  const frontProxy = {
    authorities: [new X509Certificate(authority.certificate)],
    allowedNames: [],
    usernameHeaders: ['x-remote-user'],
    groupHeaders: ['x-remote-group'],
    uidHeaders: ['x-remote-uid'],
    extraPrefixes: ['x-remote-extra-'],
  }
  const read: PropertyKey[] = []
  const message = new Proxy(
    { socket, rawHeaders: ['X-Remote-User', 'jane', 'X-Remote-Group', 'devs', 'X-Remote-Extra-Scopes', 'a'] },
    { get: (target, key, receiver) => (read.push(key), Reflect.get(target, key, receiver)) },
  )
  expect(callerOf(message, frontProxy, now.getTime() + 1000)).toEqual({
    username: 'jane',
    groups: ['devs'],
    extra: { scopes: ['a'] },
  })
  expect(read).toEqual(['socket', 'rawHeaders'])
})
