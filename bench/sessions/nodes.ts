import { createServer as createHttpsServer } from 'node:https'
import { createServer, Socket } from 'node:net'
import { duplexPair } from 'node:stream'
import { WebSocketServer } from 'ws'
import type { SessionEndpoint } from '../../api/session-endpoint.ts'
import { createSessionAccess } from '../../handler/session-access.ts'
import { startSessionServer } from '../../handler/session-server.ts'
import { ConsoleHub } from '../../launcher/console-hub.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { pacedOptions } from '../../runtime/carry.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createKubeClient } from '../../runtime/kube.ts'
import { listen } from '../../runtime/listen.ts'
import { createLogger } from '../../runtime/log.ts'
import { createSelfSigned } from '../../runtime/self-signed.ts'
import { pourRequest, windowBytes } from './window.ts'

/**
 * The far side of `bench/sessions.ts`, in a process of its own as on a node: session servers of handlers, consoles and a
 * port of guests, and the extension server that echoes by itself. Started with an IPC channel:
 *
 *     node bench/sessions/nodes.ts KUBECONFIG NODES '[{"podUID": …, "namespace": …}, …]'
 */
const [file = '', count, pods = '[]'] = process.argv.slice(2)

/** What is sent to the benchmark as soon as everything listens. */
export interface Listening {
  /** For each node. */
  readonly endpoints: readonly SessionEndpoint[]
  /** The port of the extension server. */
  readonly directPort: number
}

const log = createLogger({ process: 'bench', level: 'silent' })
const kube = createKubeClient({ access: await kubeconfigAccess({ file }), userAgent: 'bench' })
const chunk = Buffer.alloc(64 * 1024, 'x')

/** Echoes bytes; sends a window for each `pourRequest`, which can arrive in parts. */
function createPlayer(send: (bytes: Buffer) => Promise<void>): (received: Buffer) => void {
  let asked = 0
  return (received) => {
    if (received[0] !== pourRequest[0]) return void send(received)
    asked += received.length
    if (asked < pourRequest.length) return undefined
    asked -= pourRequest.length
    return void (async () => {
      for (let bytes = 0; bytes < windowBytes; bytes += chunk.length) await send(chunk)
    })()
  }
}

/** The consoles of the guests by the UID of their pods. */
const hubs = new Map(
  (JSON.parse(pods) as readonly { readonly podUID: string; readonly namespace: string }[]).map(
    ({ podUID, namespace }) => {
      const [line, guest] = duplexPair()
      guest.on(
        'data',
        createPlayer((more) => new Promise((resolve) => void guest.write(more, () => resolve()))),
      )
      const hub = new ConsoleHub({ open: async () => line, clock: systemClock, log })
      void hub.start()
      return [podUID, { hub, namespace }]
    },
  ),
)
// Stands for a port of a guest.
const tcp = createServer({ noDelay: true }, (socket) => {
  socket.on('error', () => {})
  socket.on(
    'data',
    createPlayer((more) => new Promise((resolve) => void socket.write(more, () => resolve()))),
  )
})
const tcpPort = await listen(tcp, 0, '127.0.0.1')

const startHandler = () =>
  startSessionServer({
    port: 0,
    host: '127.0.0.1',
    address: '127.0.0.1',
    accessOf: createSessionAccess(kube, systemClock, 'system:serviceaccount:virtset-system:virtset-webhooks'),
    namespaceOf: (uid) => hubs.get(uid)?.namespace,
    open: async (uid, target) => {
      const { hub } = hubs.get(uid) ?? {}
      if (target.kind !== 'console' || hub === undefined)
        return { socket: new Socket(pacedOptions).setNoDelay(true).connect(tcpPort, '127.0.0.1') }
      const session = await hub.join(target)
      const [ours, theirs] = duplexPair()
      session.start(theirs)
      return { ...session, socket: ours }
    },
    log,
    clock: systemClock,
  })
const handlers = await Promise.all(Array.from({ length: Number(count) }, startHandler))

const sockets = new WebSocketServer({ noServer: true, perMessageDeflate: false })
const direct = createHttpsServer(createSelfSigned('echo', Date.now()), (_, response) => {
  const resources = { kind: 'APIResourceList', apiVersion: 'v1', groupVersion: 'echo.test/v1', resources: [] }
  response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(resources))
})
direct.on('upgrade', (request, socket, head) => {
  sockets.handleUpgrade(request, socket, head, (client) => {
    client.on(
      'message',
      createPlayer((more) => new Promise((resolve) => client.send(more, () => resolve()))),
    )
  })
})
const directPort = await listen(direct, 0)

process.on('disconnect', () => process.exit())
const listening: Listening = { endpoints: handlers.map(({ published }) => published), directPort }
process.send?.(listening)
