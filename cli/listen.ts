import { createServer } from 'node:net'
import type { Duplex } from 'node:stream'
import { hostPort } from '../runtime/host-port.ts'
import { Usage, errorText } from './failure.ts'
import type { ListenAddress } from './world.ts'

/** Only the user may connect to a unix socket. */
const socketMask = 0o177

/** Accepts connections until it is closed. @throws Usage */
export async function listenAt(
  at: ListenAddress,
  onConnection: (connection: Duplex) => void,
): Promise<{ readonly address: string; close(): void }> {
  const server = createServer({ allowHalfOpen: true, noDelay: true }, onConnection)
  const mask = 'path' in at ? process.umask(socketMask) : undefined
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen(at, resolve)
    })
  } catch (error) {
    throw new Usage(`cannot listen: ${errorText(error)}`, { cause: error })
  } finally {
    if (mask !== undefined) process.umask(mask)
  }
  const bound = server.address()
  return {
    address: bound === null || typeof bound === 'string' ? String(bound) : hostPort(bound.address, bound.port),
    close: () => server.close(),
  }
}
