import { X509Certificate } from 'node:crypto'
import { createSecureContext } from 'node:tls'
import { expect, test } from 'vitest'
import { createSelfSigned } from './self-signed.ts'

test.each(['virtset', 'x'.repeat(200)])('a certificate for %s is self-signed and belongs to its key', (name) => {
  const { key, cert } = createSelfSigned(name, Date.UTC(2030, 0, 1))
  const certificate = new X509Certificate(cert)
  expect(certificate.verify(certificate.publicKey)).toBe(true)
  expect([certificate.subject, certificate.validFrom, certificate.validTo]).toEqual([
    `CN=${name}`,
    'Dec 31 23:00:00 2029 GMT',
    'Dec 30 00:00:00 2039 GMT',
  ])
  // Throws where the two do not belong together.
  createSecureContext({ key, cert })
})
