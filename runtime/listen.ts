import type { Server } from 'node:net'

/**
 * Listens on a port and returns it.
 * @param port 0: any free port
 * @param host absent: every address
 */
export async function listen(server: Server, port: number, host?: string): Promise<number> {
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  const address = server.address()
  return typeof address === 'object' && address ? address.port : port
}
