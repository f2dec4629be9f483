import { rm } from 'node:fs/promises'
import { createServer, type Socket } from 'node:net'
import { listenAsLauncher } from './fake-launcher.ts'

/** How a hostile process in a launcher's pod treats a connection after it has read the head of the request. */
type Behavior = (socket: Socket, path: string, vmUID: string) => void

const observedAt = '2026-01-02T03:04:05Z'
const waiting = JSON.stringify({ vmUID: '', phase: 'Waiting', reason: '', observedAt })
const running = (vmUID: string, message = '') =>
  JSON.stringify({ vmUID, phase: 'Running', reason: 'booted', message, observedAt })

const answer = (body: string) => `HTTP/1.1 200 OK\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`
const endless = 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n'
const chunk = (text: string) => `${Buffer.byteLength(text).toString(16)}\r\n${text}\r\n`

/** Writes as fast as the other side reads. */
function flood(socket: Socket, text: string): void {
  const piece = Buffer.from(text.repeat(Math.ceil(65_536 / text.length)))
  const more = () => {
    while (!socket.destroyed && socket.write(piece)) continue
  }
  socket.on('drain', more)
  more()
}

/** Writes one byte every 10 ms. */
function drip(socket: Socket, text: string): void {
  const next = (index: number) => {
    if (socket.destroyed) return
    socket.write(text[index] ?? 'x')
    setTimeout(next, 10, index + 1)
  }
  next(0)
}

/** Waits for the VM, and accepts it too late. */
const neverAccepts: Behavior = (socket, path) => {
  if (path === '/domain') socket.end(answer(waiting))
}

const onEvents =
  (act: (socket: Socket, vmUID: string) => void): Behavior =>
  (socket, path, vmUID) => {
    if (path === '/events') act(socket, vmUID)
    else socket.end(answer(running(vmUID)))
  }

let count = 0
const next = () => String((count += 1))

/** Reports another domain with this many values each time, and announces it as often as possible. */
const answersDomain =
  (values: number, value: object | string = {}): Behavior =>
  (socket, path, vmUID) => {
    if (path === '/events') {
      socket.write(endless)
      socket.write(chunk(`${running(vmUID)}\n`.repeat(100)))
    } else {
      const domain = { title: next(), list: Array.from({ length: values }, () => value) }
      socket.end(answer(JSON.stringify({ ...JSON.parse(running(vmUID)), domain })))
    }
  }

export const behaviors = {
  mute: () => {},
  neverAccepts,
  closesAtOnce: (socket) => socket.destroy(),
  drips: (socket) => drip(socket, `${endless}1\r\n`),
  unfinishedLine: onEvents((socket) => socket.write(endless + chunk('x'.repeat(4 * 1024 * 1024 - 1)))),
  endlessLine: onEvents((socket) => {
    socket.write(endless)
    flood(socket, chunk('x'.repeat(1000)))
  }),
  lineOfSingleBytes: onEvents((socket) => {
    socket.write(endless)
    flood(socket, chunk('x'))
  }),
  endlessEvents: onEvents((socket, vmUID) => {
    socket.write(endless)
    flood(socket, chunk(`${running(vmUID)}\n`))
  }),
  emptyEvents: onEvents((socket) => {
    socket.write(endless)
    flood(socket, chunk('\n'))
  }),
  giantAnswer: (socket) => {
    socket.write(endless)
    flood(socket, chunk('['.repeat(1000)))
  },
  largestAnswer: answersDomain(49_000),
  /** 1 MB, which takes 20 MB of heap once it is parsed. */
  densestAnswer: answersDomain(330_000),
  largestStoredDomain: answersDomain(7900),
  /** 246 KB, of characters that take two bytes both on the wire and in memory. */
  largestStoredTexts: answersDomain(7900, 'ā'.repeat(14)),
  fickle: (socket, path, vmUID) => {
    if (path !== '/events') socket.end(answer(running(vmUID, next())))
    else {
      socket.write(endless)
      const more = () => {
        if (socket.destroyed) return
        socket.write(chunk(`${running(vmUID)}\n`))
        setTimeout(more, 20)
      }
      more()
    }
  },
  otherVirtualMachine: (socket) => socket.end(answer(running('00000000-0000-4000-8000-000000000000'))),
  interimResponses: (socket) => flood(socket, 'HTTP/1.1 102 Processing\r\n\r\n'),
  noHttp: (socket) => flood(socket, '\0\x01\xff'),
  emptyLines: (socket) => flood(socket, '\r\n'),
  endlessSize: onEvents((socket) => {
    socket.write(endless)
    flood(socket, '0')
  }),
} satisfies { readonly [name: string]: Behavior }

export interface HostileLauncher {
  /** The number of open connections. */
  connections(): number
  close(): Promise<void>
}

/** A process that impersonates the launcher of the VM. */
export async function startHostileLauncher(
  kubeletRoot: string,
  ids: { readonly podUID: string; readonly vmUID: string },
  behavior: keyof typeof behaviors,
): Promise<HostileLauncher> {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('close', () => sockets.delete(socket))
    socket.on('error', () => {})
    socket.once('data', (head: Buffer) => {
      behaviors[behavior](socket, head.toString('latin1').split(' ')[1] ?? '', ids.vmUID)
      socket.resume()
    })
  })
  const pod = await listenAsLauncher(kubeletRoot, ids.podUID, server)
  return {
    connections: () => sockets.size,
    async close() {
      server.close()
      for (const socket of sockets) socket.destroy()
      await rm(pod, { recursive: true, force: true })
    },
  }
}
