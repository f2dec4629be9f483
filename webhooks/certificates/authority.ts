import 'reflect-metadata'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { webcrypto } from 'node:crypto'
import * as x509 from '@peculiar/x509'
import { pemBlocks } from './pem.ts'
import { authorityLifeMs, backdateMs, leafLifeMs } from './plan.ts'
import type { Authority, Certificate, Leaf } from './plan.ts'

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const

/** A new self-signed authority with a unique name. */
export async function createAuthority(nowMs: number): Promise<Authority> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=virtset-webhooks-${crypto.randomUUID()}`,
    notBefore: new Date(nowMs - backdateMs),
    notAfter: new Date(nowMs + authorityLifeMs),
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  const pem = certificate.toString('pem')
  return { ...describe(pem), key: await privateKeyPem(keys.privateKey) }
}

/**
 * A certificate for a server or client with these names, signed by `authority`; it expires no later than its authority.
 */
export async function issueLeaf(
  authority: Authority,
  dnsNames: readonly string[],
  nowMs: number,
  usage: 'server' | 'client' = 'server',
): Promise<Leaf> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const issuer = new x509.X509Certificate(authority.pem)
  const certificate = await x509.X509CertificateGenerator.create({
    subject: [{ CN: [dnsNames[0] ?? 'virtset-webhooks'] }],
    issuer: issuer.subject,
    notBefore: new Date(Math.max(nowMs - backdateMs, authority.notBefore)),
    notAfter: new Date(Math.min(nowMs + leafLifeMs, authority.notAfter)),
    publicKey: keys.publicKey,
    signingKey: await crypto.subtle.importKey('pkcs8', x509.PemConverter.decodeFirst(authority.key), algorithm, false, [
      'sign',
    ]),
    signingAlgorithm: algorithm,
    extensions: [
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage[`${usage}Auth`]]),
      new x509.SubjectAlternativeNameExtension(dnsNames.map((value) => ({ type: 'dns' as const, value }))),
      await x509.AuthorityKeyIdentifierExtension.create(issuer),
    ],
  })
  return { ...describeLeaf(certificate.toString('pem')), key: await privateKeyPem(keys.privateKey) }
}

/** The readable certificates in `text`. */
export function readCertificates(text: string): Certificate[] {
  return pemBlocks(text, 'CERTIFICATE').flatMap((pem) => {
    try {
      return [describe(pem)]
    } catch {
      return []
    }
  })
}

/** Each certificate with its key, if `keys` contains it. */
export function readAuthorities(certificates: string, keys: string): (Authority | Certificate)[] {
  const readable = pemBlocks(keys, 'PRIVATE KEY')
  return readCertificates(certificates).map((certificate) => {
    const key = readable.find((candidate) => matchesKey(certificate.pem, candidate))
    return key === undefined ? certificate : { ...certificate, key }
  })
}

/** Undefined if certificate or key cannot be read, or they do not match. */
export function readLeaf(certificate: string, key: string): Leaf | undefined {
  return matchesKey(certificate, key) ? { ...describeLeaf(certificate), key } : undefined
}

export const isAuthority = (certificate: Authority | Certificate): certificate is Authority => 'key' in certificate

/** Whether the authority signed the leaf, and does not only have the name of its issuer. */
export function hasSigned(authority: Certificate, leaf: Leaf): boolean {
  if (authority.subject !== leaf.issuer) return false
  try {
    return new X509Certificate(leaf.pem).verify(new X509Certificate(authority.pem).publicKey)
  } catch {
    return false
  }
}

function matchesKey(certificate: string, key: string): boolean {
  try {
    return new X509Certificate(certificate).checkPrivateKey(createPrivateKey(key))
  } catch {
    return false
  }
}

function describe(pem: string): Certificate {
  const { subject, validFromDate, validToDate } = new X509Certificate(pem)
  return { pem: pem.trim(), subject, notBefore: validFromDate.getTime(), notAfter: validToDate.getTime() }
}

function describeLeaf(pem: string): Omit<Leaf, 'key'> {
  const { issuer, subjectAltName = '' } = new X509Certificate(pem)
  const dnsNames = subjectAltName.split(', ').map((name) => name.replace(/^DNS:/, ''))
  return { ...describe(pem), issuer, dnsNames }
}

async function privateKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await crypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY')
}
