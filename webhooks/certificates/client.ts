import { X509Certificate } from 'node:crypto'
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
      certificate.checkIssued(authority) &&
      certificate.verify(authority.publicKey),
  )
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
