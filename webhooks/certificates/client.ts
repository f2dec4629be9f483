import { X509Certificate } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { pemBlocks } from './pem.ts'

/** Which client certificates are trusted. */
export interface TrustedClients {
  readonly authorities: readonly X509Certificate[]
  /** Common names; if empty, any name is allowed. */
  readonly names: readonly string[]
}

const clientAuthentication = '1.3.6.1.5.5.7.3.2'

/**
 * Whether a certificate is valid now, is for client authentication, has one of the names, and is signed directly by one
 * of the authorities. TLS has already verified that the client has its key.
 */
export function isTrustedClient(
  { authorities, names }: TrustedClients,
  certificate: X509Certificate,
  nowMs: number,
): boolean {
  const { validFromDate, validToDate, keyUsage, subject } = certificate
  if (nowMs < validFromDate.getTime() || nowMs >= validToDate.getTime()) return false
  // In Node, keyUsage contains the extended key usages; a certificate without them is valid for every usage.
  if (keyUsage !== undefined && !keyUsage.includes(clientAuthentication)) return false
  if (names.length > 0 && !names.some((name) => subject.split('\n').includes(`CN=${name}`))) return false
  return authorities.some(
    (authority) =>
      authority.ca &&
      nowMs >= authority.validFromDate.getTime() &&
      nowMs < authority.validToDate.getTime() &&
      isSignedBy(authority, certificate),
  )
}

/** A cluster has few clients with a certificate of the front proxy's authority. */
const maxVerified = 64

const verified = new WeakMap<X509Certificate, LRUCache<string, boolean>>()

/**
 * Each request of a connection presents the same certificate, and verifying its signature takes longer than everything
 * else about it. The fingerprint covers the signature, too.
 */
function isSignedBy(authority: X509Certificate, certificate: X509Certificate): boolean {
  const known = verified.get(authority) ?? new LRUCache<string, boolean>({ max: maxVerified })
  verified.set(authority, known)
  const { fingerprint256 } = certificate
  const isSigned =
    known.get(fingerprint256) ?? (certificate.checkIssued(authority) && certificate.verify(authority.publicKey))
  known.set(fingerprint256, isSigned)
  return isSigned
}

/** The readable certificates of a PEM file. */
export function parseAuthorities(pem: string): X509Certificate[] {
  return pemBlocks(pem, 'CERTIFICATE').flatMap((block) => {
    try {
      return [new X509Certificate(block)]
    } catch {
      return []
    }
  })
}
