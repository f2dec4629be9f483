import { randomInt } from 'node:crypto'
import { createServer } from 'node:net'

/**
 * Below the ports that the kernel gives to clients, and to servers that listen on port 0: seconds can pass until a port
 * is used, and tests that run meanwhile take many of those. Above the ports of a cluster on this host, and below those of
 * Services of type NodePort.
 */
const range = { first: 20_000, end: 30_000 }
const given = new Set<number>()

/** A port of the loopback device that is free; each only once in this process. */
export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(range.first, range.end)
    if (given.has(port) || !(await isFree(port))) continue
    given.add(port)
    return port
  }
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  const isListening = await new Promise<boolean>((resolve) => {
    server.once('error', () => resolve(false)).listen(port, '127.0.0.1', () => resolve(true))
  })
  if (isListening) await new Promise((resolve) => server.close(resolve))
  return isListening
}
