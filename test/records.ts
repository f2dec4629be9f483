import { connect, type Socket } from 'node:net'
import { Duplex } from 'node:stream'
import type { TLSSocket } from 'node:tls'

/** A connection beneath TLS that can gather what is sent, so that many records arrive at once. */
export interface Wire extends Duplex {
  /** Sends each byte of a text in a record of its own, and all of these records together. */
  sendEach(tls: TLSSocket, text: string): Promise<void>
}

export function wireOf(socket: Socket): Wire {
  let gathered: Buffer[] | undefined
  const wire = new Duplex({
    read: () => void socket.resume(),
    write(chunk: Buffer, _, done) {
      if (gathered === undefined) return void socket.write(chunk, () => done())
      gathered.push(chunk)
      done()
    },
    final: (done) => void socket.end(() => done()),
    destroy(error, done) {
      socket.destroy()
      done(error)
    },
  })
  socket
    .on('data', (chunk: Buffer) => void wire.push(chunk))
    .on('end', () => void wire.push(null))
    .on('error', () => {})
    .on('close', () => void wire.destroy())
  return Object.assign(wire, {
    async sendEach(tls: TLSSocket, text: string) {
      gathered = []
      // Writes that wait for another one would share a record.
      for (const byte of text) await new Promise((resolve) => tls.write(byte, resolve))
      const records = Buffer.concat(gathered)
      gathered = undefined
      await new Promise((resolve) => socket.write(records, resolve))
    },
  })
}

export const dial = (port: number): Wire => wireOf(connect(port, '127.0.0.1').setNoDelay(true))
