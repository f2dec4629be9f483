import { X509Certificate } from 'node:crypto'

/** Whose client certificates are believed. */
export interface TrustedClients {
  readonly authorities: readonly X509Certificate[]
  /** Common names; empty: whatever name an authority has signed. */
  readonly names: readonly string[]
}

const clientAuthentication = '1.3.6.1.5.5.7.3.2'

/**
 * Whether a certificate is for client authentication, valid now, has one of the names, and one of the authorities itself has signed it. That its
 * owner has the key is what TLS has shown.
 */
export function isTrustedClient(
  { authorities, names }: TrustedClients,
  certificate: X509Certificate,
  nowMs: number,
): boolean {
  const { validFromDate, validToDate, keyUsage, subject } = certificate
  if (nowMs < validFromDate.getTime() || nowMs >= validToDate.getTime()) return false
  // Node's name for the extended key usages; a certificate without any may be used for all.
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

/** The certificates of a file; what cannot be read is passed over. */
export function parseAuthorities(pem: string): X509Certificate[] {
  const blocks = pem.match(/-----BEGIN CERTIFICATE-----[A-Za-z0-9+/=\s]+-----END CERTIFICATE-----/g) ?? []
  return blocks.flatMap((block) => {
    try {
      return [new X509Certificate(block)]
    } catch {
      return []
    }
  })
}
