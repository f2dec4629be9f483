import 'reflect-metadata'
import { generateKeyPairSync, type webcrypto } from 'node:crypto'

import * as x509 from '@peculiar/x509'

/** A certificate and its private key, both PEM. */
export interface Pair {
  readonly certificate: string
  readonly key: string
}

/** The subject of a leaf: Kubernetes reads the user from CN and the groups from O. */
export interface Subject {
  readonly commonName: string
  readonly organization?: string
  readonly dnsNames?: readonly string[]
  readonly addresses?: readonly string[]
}

const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' } as const
/** Ten years, as kubeadm's authorities: a development cluster needs no renewal. */
const validityMs = 10 * 365 * 24 * 3600 * 1000

/** A self-signed authority, valid from a minute before `now` because clocks can differ. */
export async function createAuthority(commonName: string, now: Date): Promise<Pair> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    name: `CN=${commonName}`,
    ...validity(now),
    keys,
    signingAlgorithm: algorithm,
    extensions: [
      new x509.BasicConstraintsExtension(true, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.digitalSignature, true),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return { certificate: certificate.toString('pem'), key: await privateKeyPem(keys.privateKey) }
}

/** A certificate for both client and server authentication, signed by `authority`. */
export async function createCertificate(authority: Pair, subject: Subject, now: Date): Promise<Pair> {
  const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
  const names = [
    ...(subject.dnsNames ?? []).map((value) => ({ type: 'dns' as const, value })),
    ...(subject.addresses ?? []).map((value) => ({ type: 'ip' as const, value })),
  ]
  const certificate = await x509.X509CertificateGenerator.create({
    subject: [...(subject.organization ? [{ O: [subject.organization] }] : []), { CN: [subject.commonName] }],
    issuer: new x509.X509Certificate(authority.certificate).subject,
    ...validity(now),
    publicKey: keys.publicKey,
    signingKey: await signingKey(authority.key),
    signingAlgorithm: algorithm,
    extensions: [
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth, x509.ExtendedKeyUsage.clientAuth]),
      ...(names.length === 0 ? [] : [new x509.SubjectAlternativeNameExtension(names)]),
    ],
  })
  return { certificate: certificate.toString('pem'), key: await privateKeyPem(keys.privateKey) }
}

/** The key that signs service account tokens and the public key that verifies them, both PEM. */
export function createTokenKeys(): { privateKey: string; publicKey: string } {
  return generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'pem' },
    privateKeyEncoding: { type: 'sec1', format: 'pem' },
  })
}

function validity(now: Date) {
  return { notBefore: new Date(now.getTime() - 60_000), notAfter: new Date(now.getTime() + validityMs) }
}

async function privateKeyPem(key: webcrypto.CryptoKey): Promise<string> {
  return x509.PemConverter.encode(await crypto.subtle.exportKey('pkcs8', key), 'PRIVATE KEY')
}

function signingKey(pem: string): Promise<webcrypto.CryptoKey> {
  return crypto.subtle.importKey('pkcs8', x509.PemConverter.decodeFirst(pem), algorithm, false, ['sign'])
}
