import { createPrivateKey, generateKeyPairSync, sign } from 'node:crypto'

/** How long a certificate is valid: longer than a process runs. */
const lifeMs = 10 * 365 * 24 * 60 * 60 * 1000
/** For clients whose clock is behind. */
const backdateMs = 60 * 60 * 1000

const sequence = 0x30
/** The object identifiers of ecdsa-with-SHA256 and of a common name, in DER. */
const ecdsaWithSha256 = der(sequence, Buffer.from('06082a8648ce3d040302', 'hex'))
const commonName = Buffer.from('0603550403', 'hex')

/**
 * A key and a self-signed certificate, as PEM, for clients that encrypt and do not verify. Version 1 of X.509, without
 * extensions. The library that issues the certificates of the webhooks would cost every process 21 MB.
 */
export function createSelfSigned(name: string, nowMs: number): { readonly key: string; readonly cert: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', {
    namedCurve: 'P-256',
    publicKeyEncoding: { type: 'spki', format: 'der' },
    privateKeyEncoding: { type: 'pkcs8', format: 'pem' },
  })
  const subject = der(sequence, der(0x31, der(sequence, commonName, der(0x0c, Buffer.from(name)))))
  const validity = der(sequence, time(nowMs - backdateMs), time(nowMs + lifeMs))
  const serial = der(0x02, Buffer.from([1]))
  const content = der(sequence, serial, ecdsaWithSha256, subject, validity, subject, publicKey)
  const signature = sign('sha256', content, createPrivateKey(privateKey))
  const certificate = der(sequence, content, ecdsaWithSha256, der(0x03, Buffer.from([0]), signature))
  const lines = certificate.toString('base64').match(/.{1,64}/g) ?? []
  return {
    key: privateKey,
    cert: ['-----BEGIN CERTIFICATE-----', ...lines, '-----END CERTIFICATE-----', ''].join('\n'),
  }
}

/** GeneralizedTime. */
function time(ms: number): Buffer {
  return der(0x18, Buffer.from(`${new Date(ms).toISOString().replaceAll(/[-:T]|\..*/g, '')}Z`))
}

function der(tag: number, ...contents: readonly Buffer[]): Buffer {
  const content = Buffer.concat(contents)
  const { length } = content
  const header =
    length < 128 ? [tag, length] : length < 256 ? [tag, 0x81, length] : [tag, 0x82, length >> 8, length & 255]
  return Buffer.concat([Buffer.from(header), content])
}
