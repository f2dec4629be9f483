import { X509Certificate } from 'node:crypto'
import { expect, test } from 'vitest'
import { createSelfSigned } from '../../runtime/self-signed.ts'
import {
  createAuthority,
  hasSigned,
  isAuthority,
  issueLeaf,
  readAuthorities,
  readCertificates,
  readLeaf,
} from './authority.ts'
import { authorityLifeMs, backdateMs, leafLifeMs } from './plan.ts'

const nowMs = Date.UTC(2026, 10, 21, 9)

test('a leaf is signed by its authority, has its names and expires no later than its authority', async () => {
  const authority = await createAuthority(nowMs)
  const leaf = await issueLeaf(authority, ['a.b.svc', 'a.b.svc.cluster.local'], nowMs)
  const certificate = new X509Certificate(leaf.pem)
  expect(certificate.verify(new X509Certificate(authority.pem).publicKey)).toBe(true)
  expect([leaf.subject, certificate.checkHost('a.b.svc')]).toEqual(['CN=a.b.svc', 'a.b.svc'])
  expect([authority.notBefore, authority.notAfter]).toEqual([nowMs - backdateMs, nowMs + authorityLifeMs])
  expect([leaf.notBefore, leaf.notAfter, leaf.issuer]).toEqual([
    nowMs - backdateMs,
    nowMs + leafLifeMs,
    authority.subject,
  ])
  const late = await issueLeaf(authority, ['a'], authority.notAfter - 1000)
  expect(late.notAfter).toBe(authority.notAfter)
})

test('only the authority that signed a leaf has signed it, whatever its name is', async () => {
  const authority = await createAuthority(nowMs)
  const leaf = await issueLeaf(authority, ['a'], nowMs)
  const { cert } = createSelfSigned(authority.subject.replace('CN=', ''), nowMs)
  const all = [...readCertificates(cert), { ...authority, pem: 'nonsense' }, await createAuthority(nowMs), authority]
  expect(all.map(({ subject }) => subject === leaf.issuer)).toEqual([true, true, false, true])
  expect(all.map((each) => hasSigned(each, leaf))).toEqual([false, false, false, true])
})

test('authorities have unique names and are read as they were written', async () => {
  const [one, two] = [await createAuthority(nowMs), await createAuthority(nowMs)]
  expect(one.subject === two.subject).toBe(false)
  const certificates = `${one.pem}\n${two.pem}\n`
  expect(readAuthorities(certificates, `${two.key}\n${one.key}`)).toEqual([one, two])
  const withoutKey = readAuthorities(certificates, two.key)
  expect(withoutKey.map(isAuthority)).toEqual([false, true])
  const leaf = await issueLeaf(one, ['a'], nowMs)
  expect(readLeaf(leaf.pem, leaf.key)).toEqual(leaf)
  expect(readLeaf(leaf.pem, two.key)).toBe(undefined)
})

test.each([
  ['', ''],
  ['nonsense', 'nonsense'],
  [
    '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----',
    '-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----',
  ],
])('ignores unreadable text: %j', (certificate, key) => {
  expect([readCertificates(certificate), readAuthorities(certificate, key), readLeaf(certificate, key)]).toEqual([
    [],
    [],
    undefined,
  ])
})
