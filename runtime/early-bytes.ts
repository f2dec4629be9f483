import type { Duplex } from 'node:stream'

/**
 * Closes an upgraded connection if its client sends anything before the response to its request. Node would buffer up
 * to 64 KiB of it, a Buffer for each TLS record: 25 MB of records of one byte. An honest client waits for the 101.
 * @param head what has arrived together with the request
 * @returns accepts the client: what it sends from now on is delivered
 */
export function refuseEarlyBytes(socket: Duplex, head: Buffer): () => void {
  const push = socket.push.bind(socket)
  let isAccepted = false
  // A listener would make the stream flow, and pausing it does not stop TLS from delivering what it has decrypted.
  socket.push = (chunk: Buffer | null) => {
    if (isAccepted || chunk === null) return push(chunk)
    socket.destroy()
    return false
  }
  if (head.length > 0) socket.destroy()
  return () => {
    isAccepted = true
  }
}
