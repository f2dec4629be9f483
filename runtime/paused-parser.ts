import type { Server } from 'node:https'

/**
 * Lets a connection continue after a request that arrives before the response to the previous one has left the process.
 * Node then pauses the parser of the connection. But by default a parser reads from TLS itself, which goes on with what
 * it has decrypted: the paused parser reports `HPE_PAUSED`, and the connection is closed. With a listener for `data`,
 * Node gives up that shortcut for good, and reads a stream, which stops.
 */
export function surviveBackpressure(server: Server): void {
  const listener = () => {}
  // Node's own listener, which starts the shortcut, was added by the constructor.
  server.on('secureConnection', (socket) => {
    if (socket.alpnProtocol !== 'h2') socket.on('data', listener).off('data', listener)
  })
}
