import type { ClientRequest, IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { WebSocketServer } from 'ws'
import type { Access } from '../runtime/access.ts'
import { refusalText, requestTo } from './attachment.ts'
import { errorText } from './failure.ts'

/** As of the command line's other requests: a node has 30 s for a screenshot. */
const headMs = 35_000
/** For what can be silent, or goes on for long, the page opens a WebSocket. */
const silentMs = 35_000
/** Once one side of a WebSocket has ended, the other has so long to end as well. */
const lingerMs = 10_000

type Headers = { readonly [name: string]: string }

/** Headers of the browser that reach the API server: none that carries an identity. */
const requestHeaders = ['accept', 'accept-encoding', 'content-type', 'content-length']
const upgradeHeaders = [
  'connection',
  'upgrade',
  'sec-websocket-key',
  'sec-websocket-version',
  'sec-websocket-protocol',
  'sec-websocket-extensions',
]
const responseHeaders = ['content-type', 'content-encoding', 'retry-after']

/** A watch in rows, which a browser cannot request for a WebSocket. */
const table = 'application/json;as=Table;v=v1;g=meta.k8s.io'

/** The API server passes on what pods and services serve, which must not run with the user's credentials. */
const responsePolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"
const harmlessType = /^(?:application\/(?:[\w.-]+\+)?json|application\/yaml|text\/plain)(?:;|$)/

/** Content of another type is shown as text: with `nosniff`, a browser runs no such script. */
function harmless(headers: Headers): Headers {
  const type = headers['content-type']
  return type === undefined || harmlessType.test(type) ? headers : { ...headers, 'content-type': plainText }
}

const plainText = 'text/plain; charset=utf-8'

/** Whether the API server serves it; everything else of the API server is not passed on. */
export const isApiPath = (path: string): boolean => /^\/apis?\//.test(path)

/**
 * Sends a request to the API server with the user's credentials, and its response to the browser.
 * @param path checked by `isApiPath`, with the query
 */
export async function proxyRequest(
  access: Access,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  try {
    const answer = await send(access, path, request, response)
    response.setHeader('content-security-policy', responsePolicy)
    response.writeHead(answer.statusCode ?? 502, harmless(headersNamed(answer.headers, responseHeaders)))
    await pipeline(answer, unlessSilent, response)
  } catch (error) {
    if (response.headersSent) return void response.destroy()
    const message = `the API server cannot be reached: ${errorText(error)}`
    response.writeHead(502, { 'content-type': 'application/json' })
    response.end(
      JSON.stringify({ kind: 'Status', status: 'Failure', message, reason: 'ServiceUnavailable', code: 502 }),
    )
  }
}

/** Resolves with a response, which is not an upgrade. */
async function send(
  access: Access,
  path: string,
  request: IncomingMessage,
  response: ServerResponse,
): Promise<IncomingMessage> {
  const outgoing = await open(access, path, request.method ?? 'GET', headersNamed(request.headers, requestHeaders))
  limit(outgoing, response)
  return new Promise((resolve, reject) => {
    outgoing.once('response', resolve).once('error', reject)
    pipeline(request, outgoing).catch(reject)
  })
}

async function open(access: Access, path: string, method: string, headers: Headers) {
  const proof = await access.prove()
  const options = { ...proof.tls, method, headers: { ...headers, ...proof.headers, 'user-agent': 'kubectl-vm' } }
  return requestTo(access.server + path, options)
}

/** Ends a request to which nothing responds, or that the browser has ended. */
function limit(outgoing: ClientRequest, browser: Duplex | ServerResponse): void {
  const timer = setTimeout(() => outgoing.destroy(new Error(`no response within ${headMs / 1000} s`)), headMs)
  const begun = () => clearTimeout(timer)
  const abandon = () => outgoing.destroy()
  outgoing.once('response', begun).once('upgrade', begun).once('close', begun)
  browser.once('close', abandon)
  if (browser.destroyed) abandon()
}

/** @throws Error once nothing has moved for a while, because the API server is silent or the browser reads no more */
async function* unlessSilent(source: IncomingMessage): AsyncGenerator<unknown> {
  const timer = setTimeout(() => source.destroy(new Error(`silent for ${silentMs / 1000} s`)), silentMs)
  try {
    for await (const chunk of source) {
      timer.refresh()
      yield chunk
    }
  } finally {
    clearTimeout(timer)
  }
}

const headersNamed = (headers: IncomingMessage['headers'], names: readonly string[]): Headers =>
  Object.fromEntries(names.flatMap((name) => (headers[name] === undefined ? [] : [[name, String(headers[name])]])))

/**
 * Connects a WebSocket of the browser with one of the API server; frames are passed on unread. A browser does not
 * report why a WebSocket was refused, so a refusal is an open WebSocket that is closed with the code 4000 + status and
 * the message.
 */
export async function proxyUpgrade(
  access: Access,
  path: string,
  request: IncomingMessage,
  browser: Duplex,
  head: Buffer,
): Promise<void> {
  const refuse = (status: number, message: string) => refuseSocket(request, browser, head, status, message)
  try {
    const isTable = new URL(path, 'http://localhost').searchParams.get('as') === 'Table'
    // The API server refuses WebSockets of watches without an origin, and compares it with nothing.
    const { origin } = new URL(access.server)
    const headers = { ...headersNamed(request.headers, upgradeHeaders), origin, ...(isTable ? { accept: table } : {}) }
    const outgoing = await open(access, path, 'GET', headers)
    limit(outgoing, browser)
    outgoing
      .once('upgrade', (answer, cluster, first) => join(answer, browser, head, cluster, first))
      .once('response', (answer) => {
        refusalText(answer).then(
          (body) => refuse(answer.statusCode ?? 502, messageIn(body)),
          (error) => refuse(502, errorText(error)),
        )
      })
      .once('error', (error) => refuse(502, `the API server cannot be reached: ${errorText(error)}`))
      .end()
  } catch (error) {
    refuse(502, errorText(error))
  }
}

function join(answer: IncomingMessage, browser: Duplex, head: Buffer, cluster: Duplex, first: Buffer): void {
  const lines = Object.entries(headersNamed(answer.headers, [...upgradeHeaders, 'sec-websocket-accept']))
  const text = lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')
  browser.write(`HTTP/1.1 101 Switching Protocols\r\n${text}\r\n`)
  if (first.length > 0) browser.write(first)
  if (head.length > 0) cluster.write(head)
  const end = () => {
    cluster.destroy()
    browser.destroy()
  }
  const both = [pipeline(cluster, browser), pipeline(browser, cluster)].map((one) => one.catch(() => {}))
  let timer: NodeJS.Timeout | undefined
  void Promise.race(both).then(() => (timer = setTimeout(end, lingerMs)))
  void Promise.all(both).then(() => {
    clearTimeout(timer)
    end()
  })
}

const refusals = new WebSocketServer({ noServer: true })
/** The limit of WebSocket for the reason in a close frame. */
const mostReasonBytes = 123

function refuseSocket(request: IncomingMessage, browser: Duplex, head: Buffer, status: number, message: string): void {
  refusals.handleUpgrade(request, browser, head, (socket) => {
    // A character cut in two would be an invalid reason.
    const reason = new TextDecoder().decode(Buffer.from(message).subarray(0, mostReasonBytes), { stream: true })
    socket.close(4000 + status, reason)
  })
}

/** The message of a Status, or the text itself. */
function messageIn(body: string): string {
  try {
    const status: unknown = JSON.parse(body)
    if (typeof status === 'object' && status !== null && 'message' in status) return String(status.message)
  } catch {
    // It is not JSON.
  }
  return body
}
