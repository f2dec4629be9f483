import { Socket } from 'node:net'

/** The socket on which Node has put a socket of TLS: the accepted one, or that of `tls.connect`. Node does not name it. */
export function transportOf(socket: Socket): Socket {
  const parent: unknown = Reflect.get(socket, '_parent')
  return parent instanceof Socket ? parent : socket
}
