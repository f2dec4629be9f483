import { createCipheriv, createHmac } from 'node:crypto'

/** The cipher suite of `keyUpdates`. */
export const keyUpdateCipher = 'TLS_AES_128_GCM_SHA256'

/**
 * Records of TLS 1.3 that only change the sender's key, which Node cannot send. RFC 8446, 4.6.3 and 7.
 * @param line what the event `keylog` says, of the sender's `TRAFFIC_SECRET_0`
 * @param sent the records that the sender has encrypted with that secret
 */
export function keyUpdates(line: string, sent: number, count: number): Buffer {
  let secret: Buffer = Buffer.from(line.trim().split(' ').at(-1) ?? '', 'hex')
  const derive = (label: string, length: number): Buffer => {
    const name = Buffer.from(`tls13 ${label}`)
    const info = Buffer.from([0, length, name.length, ...name, 0, 1])
    return createHmac('sha256', secret).update(info).digest().subarray(0, length)
  }
  // A handshake message of type 24 that asks for no answer, and the type of its record.
  const message = Buffer.from([24, 0, 0, 1, 0, 22])
  const head = Buffer.from([23, 3, 3, 0, message.length + 16])
  const records: Buffer[] = []
  for (let index = 0; index < count; index++) {
    const nonce = derive('iv', 12)
    // Records are counted anew with each key.
    if (index === 0) nonce.writeUInt8(nonce.readUInt8(11) ^ sent, 11)
    const cipher = createCipheriv('aes-128-gcm', derive('key', 16), nonce).setAAD(head)
    records.push(head, cipher.update(message), cipher.final(), cipher.getAuthTag())
    secret = derive('traffic upd', 32)
  }
  return Buffer.concat(records)
}
