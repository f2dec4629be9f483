import { createPrivateKey, createPublicKey, sign, verify, X509Certificate } from 'node:crypto'
import { expect, test } from 'vitest'

import { createAuthority, createCertificate, createTokenKeys } from './certificates.ts'

const now = new Date('2026-01-01T00:00:00Z')

test('a certificate has its subject and key, and is signed by its authority', async () => {
  const authority = await createAuthority('cluster', now)
  const pair = await createCertificate(
    authority,
    {
      commonName: 'system:node:node1',
      organization: 'system:nodes',
      dnsNames: ['node1'],
      addresses: ['198.51.100.1'],
    },
    now,
  )
  const leaf = new X509Certificate(pair.certificate)
  const root = new X509Certificate(authority.certificate)
  expect(leaf.subject).toBe('O=system:nodes\nCN=system:node:node1')
  expect(leaf.subjectAltName).toBe('DNS:node1, IP Address:198.51.100.1')
  expect(leaf.checkPrivateKey(createPrivateKey(pair.key))).toBe(true)
  expect(leaf.verify(root.publicKey)).toBe(true)
  expect([root.ca, leaf.ca]).toEqual([true, false])
  expect(new Date(leaf.validFrom).getTime()).toBe(now.getTime() - 60_000)
})

test('the public key verifies tokens signed with the private key', () => {
  const keys = createTokenKeys()
  const signature = sign('sha256', Buffer.from('token'), createPrivateKey(keys.privateKey))
  expect(verify('sha256', Buffer.from('token'), createPublicKey(keys.publicKey), signature)).toBe(true)
})
