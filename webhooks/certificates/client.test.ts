import 'reflect-metadata'
import { X509Certificate } from 'node:crypto'
import type { webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'
import { expect, test, vi } from 'vitest'
import { isTrustedClient, parseAuthorities } from './client.ts'

const hourMs = 3_600_000
const startMs = Date.UTC(2030, 0, 1)
const endMs = startMs + hourMs
const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const
const { clientAuth, serverAuth } = x509.ExtendedKeyUsage

interface Issued {
  readonly certificate: X509Certificate
  readonly keys: webcrypto.CryptoKeyPair
}

/** A certificate that `issuer` signed, or a self-signed one. */
async function issue(
  name: string,
  issuer: Issued | undefined,
  {
    usages = [],
    isCa = false,
    from = startMs,
    to = endMs,
    keys: given,
  }: { usages?: string[]; isCa?: boolean; from?: number; to?: number; keys?: webcrypto.CryptoKeyPair } = {},
): Promise<Issued> {
  const keys = given ?? (await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify']))
  const made = await x509.X509CertificateGenerator.create({
    subject: `CN=${name}`,
    issuer: issuer?.certificate.subject ?? `CN=${name}`,
    notBefore: new Date(from),
    notAfter: new Date(to),
    publicKey: keys.publicKey,
    signingKey: issuer?.keys.privateKey ?? keys.privateKey,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(isCa),
      ...(usages.length === 0 ? [] : [new x509.ExtendedKeyUsageExtension(usages)]),
    ],
  })
  return { certificate: new X509Certificate(made.toString('pem')), keys }
}

const authority = await issue('proxy-ca', undefined, { isCa: true })
const impostor = await issue('proxy-ca', undefined, { isCa: true })
const other = await issue('other-ca', undefined, { isCa: true })
const renamed = await issue('renamed-ca', undefined, { isCa: true, keys: authority.keys })
const notCa = await issue('not-ca', undefined)
const shortLived = await issue('short-ca', undefined, { isCa: true, from: startMs + 1000, to: endMs - 1000 })
const intermediate = await issue('intermediate', authority, { isCa: true })
const options = { usages: [clientAuth] }
const client = await issue('client', authority, options)
const brief = await issue('client', authority, { ...options, from: startMs + 1000, to: endMs - 1000 })

test.each<[string, Issued, { authorities?: Issued[]; names?: string[]; nowMs?: number }, boolean]>([
  ['a client certificate', client, {}, true],
  ['one with an allowed name', client, { names: ['other', 'client'] }, true],
  ['one with another name', client, { names: ['other', 'CN=client', 'clien'] }, false],
  ['one at its first millisecond', brief, { nowMs: startMs + 1000 }, true],
  ['one that is not valid yet', brief, { nowMs: startMs + 999 }, false],
  ['one at its last millisecond', brief, { nowMs: endMs - 1001 }, true],
  ['one that has expired', brief, { nowMs: endMs - 1000 }, false],
  ['one without extended key usages', await issue('client', authority), {}, true],
  ['one for servers', await issue('client', authority, { usages: [serverAuth] }), {}, false],
  ['one for both', await issue('client', authority, { usages: [serverAuth, clientAuth] }), {}, true],
  ['one of any of the authorities', client, { authorities: [other, authority] }, true],
  ['one of another authority', client, { authorities: [other] }, false],
  ['one of an authority with the same name', client, { authorities: [impostor] }, false],
  ['one of an authority with the same key and another name', client, { authorities: [renamed] }, false],
  ['one without authorities', client, { authorities: [] }, false],
  ['one of an intermediate', await issue('client', intermediate, options), {}, false],
  [
    'one of a certificate that is not an authority',
    await issue('client', notCa, options),
    { authorities: [notCa] },
    false,
  ],
  ['one whose authority is valid', await issue('client', shortLived, options), { authorities: [shortLived] }, true],
  [
    'one whose authority becomes valid now',
    await issue('client', shortLived, options),
    { authorities: [shortLived], nowMs: startMs + 1000 },
    true,
  ],
  [
    'one whose authority is not valid yet',
    await issue('client', shortLived, options),
    { authorities: [shortLived], nowMs: startMs + 999 },
    false,
  ],
  [
    'one whose authority has expired',
    await issue('client', shortLived, options),
    { authorities: [shortLived], nowMs: endMs - 1000 },
    false,
  ],
])('%s', (_, { certificate }, { authorities = [authority], names = [], nowMs = startMs + hourMs / 2 }, expected) => {
  const trusted = { authorities: authorities.map((one) => one.certificate), names }
  expect(isTrustedClient(trusted, certificate, nowMs)).toBe(expected)
})

test('reads the authorities of a PEM file, and ignores unreadable ones', () => {
  const broken = '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'
  const text = [authority.certificate.toString(), broken, '# a comment', other.certificate.toString()].join('\n')
  expect(parseAuthorities(text).map(({ subject }) => subject)).toEqual(['CN=proxy-ca', 'CN=other-ca'])
  expect(parseAuthorities('')).toEqual([])
})

test('the signature of a certificate is verified once, however often it is presented', async () => {
  const verify = vi.spyOn(X509Certificate.prototype, 'verify')
  const { raw } = (await issue('client', authority, options)).certificate
  const isTrusted = (der: Buffer, nowMs = startMs) =>
    isTrustedClient({ authorities: [authority.certificate], names: [] }, new X509Certificate(der), nowMs)
  expect([isTrusted(raw), isTrusted(raw), isTrusted(raw, endMs)]).toEqual([true, true, false])
  expect(verify).toHaveBeenCalledTimes(1)
  const forged = Buffer.from(raw)
  forged[forged.length - 1] = (forged.at(-1) ?? 0) ^ 1
  expect([isTrusted(forged), isTrusted(forged), isTrusted(raw)]).toEqual([false, false, true])
  expect(verify).toHaveBeenCalledTimes(2)
  verify.mockRestore()
})
