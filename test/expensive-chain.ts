import 'reflect-metadata'
import { createPublicKey, generateKeyPairSync, randomBytes, webcrypto } from 'node:crypto'
import { BasicConstraintsExtension, cryptoProvider, X509CertificateGenerator } from '@peculiar/x509'

cryptoProvider.set(webcrypto)

const algorithm = { name: 'RSASSA-PKCS1-v1_5', hash: 'SHA-256' }

/**
 * A certificate, with the chain of its issuers, that OpenSSL takes 6 ms for each of them to verify: each has an RSA key
 * whose public exponent is as long as its modulus. The signatures are wrong, which OpenSSL finds out by verifying them,
 * and goes on.
 */
export async function createExpensiveChain(length: number): Promise<{ readonly key: string; readonly cert: string }> {
  const { privateKey } = generateKeyPairSync('rsa', { modulusLength: 3072 })
  const { n = '' } = privateKey.export({ format: 'jwk' })
  const exponent = randomBytes(384)
  // Odd, and less than the modulus, whose first bit is set.
  exponent[0] = 0x7f
  exponent[383] = 1
  const issuer = createPublicKey({ format: 'jwk', key: { kty: 'RSA', n, e: exponent.toString('base64url') } })
  const leaf = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const { subtle } = webcrypto
  const signingKey = await subtle.importKey(
    'pkcs8',
    privateKey.export({ format: 'der', type: 'pkcs8' }),
    algorithm,
    false,
    ['sign'],
  )
  const publicKeyOf = (level: number) => (level === 0 ? leaf.publicKey : issuer).export({ format: 'der', type: 'spki' })
  const certificates = Array.from({ length: length + 1 }, (_, level) =>
    X509CertificateGenerator.create({
      serialNumber: `0${level + 1}`.slice(-2),
      subject: `CN=${level}`,
      issuer: `CN=${Math.min(level + 1, length)}`,
      notBefore: new Date('2020-01-01'),
      notAfter: new Date('2050-01-01'),
      publicKey: publicKeyOf(level),
      signingKey,
      signingAlgorithm: algorithm,
      extensions: level === 0 ? [] : [new BasicConstraintsExtension(true, undefined, true)],
    }),
  )
  return {
    key: leaf.privateKey.export({ format: 'pem', type: 'pkcs8' }).toString(),
    cert: (await Promise.all(certificates)).map((one) => one.toString('pem')).join('\n'),
  }
}
