import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Access } from '../runtime/access.ts'
import { Usage, errorText } from './failure.ts'
import type { Page, PageFile } from './page.ts'
import { cookieName, foreignOf, isSame, refusalOf, securityHeaders, type Expected } from './ui-guard.ts'
import { isApiPath, proxyRequest, proxyUpgrade } from './ui-proxy.ts'

export interface UiOptions {
  readonly access: Access
  readonly page: Page
  /** 0 for any free port. */
  readonly port: number
  /** Random texts that cannot be guessed. */
  readonly secret: string
  readonly link: string
  /** The name of the folder with the page and everything that it requests. */
  readonly root: string
  /** The page's own requests, by path: responses as JSON. Throws Usage. */
  readonly answers: { readonly [path: string]: (query: URLSearchParams) => Promise<unknown> }
  /** The same for a text in YAML, which is posted. They write nothing. */
  readonly readers: { readonly [path: string]: (text: string) => Promise<unknown> }
}

const types: { readonly [ending: string]: string } = {
  html: 'text/html; charset=utf-8',
  js: 'text/javascript; charset=utf-8',
  css: 'text/css; charset=utf-8',
  svg: 'image/svg+xml',
  txt: 'text/plain; charset=utf-8',
}

/**
 * Serves the page on 127.0.0.1, and the API server with the user's credentials to it alone.
 * @returns the link to open, which can be used once. @throws Usage
 */
export async function serveUi(options: UiOptions): Promise<{ readonly link: string; close(): void }> {
  let expected: Expected = { hosts: [], secret: options.secret }
  /** Undefined when it was used. */
  let link: string | undefined = options.link
  const root = `/${options.root}/`
  const logIn = (url: URL): boolean => {
    if (link === undefined || !isSame(url.searchParams.get('once') ?? '', link)) return false
    link = undefined
    return true
  }

  const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    for (const [name, value] of Object.entries(securityHeaders)) response.setHeader(name, value)
    const url = urlOf(request)
    const path = pathBelow(root, url)
    if (path === '/login' && foreignOf(request.headers, expected.hosts) === undefined && logIn(url)) {
      const cookie = `${cookieName}=${expected.secret}; HttpOnly; SameSite=Strict; Path=${root}`
      response.writeHead(303, { location: root, 'set-cookie': cookie }).end()
      return
    }
    const refusal = refusalOf(request.headers, expected)
    if (refusal !== undefined) return plain(response, refusal.status, refusal.message)
    if (path === undefined) return plain(response, 404, 'not found')
    if (isApiPath(path)) return proxyRequest(options.access, path + url.search, request, response)
    const reader = memberOf(options.readers, path)
    if (reader !== undefined) return read(request, response, reader)
    if (request.method !== 'GET') return plain(response, 405, 'only GET is supported here')
    const answer = memberOf(options.answers, path)
    if (answer !== undefined) return json(response, () => answer(url.searchParams))
    const [name, content] = fileAt(options.page, path)
    if (content === undefined) return plain(response, 404, 'not found')
    response.writeHead(200, { 'content-type': types[name.split('.').at(-1) ?? ''] }).end(content)
  }

  const upgrade = (request: IncomingMessage, socket: Duplex, first: Buffer): void => {
    socket.on('error', () => socket.destroy())
    const refusal = refusalOf(request.headers, expected)
    const url = urlOf(request)
    const path = pathBelow(root, url)
    if (refusal === undefined && path !== undefined && isApiPath(path)) {
      return void proxyUpgrade(options.access, path + url.search, request, socket, first)
    }
    const head = `HTTP/1.1 ${refusal?.status ?? 404} Refused\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`
    // A client that does not end as well would keep the connection.
    socket.end(head, () => socket.destroy())
  }

  const server = createServer({ noDelay: true }, (request, response) => void handle(request, response))
  server.on('upgrade', upgrade)
  const port = await listen(server, options.port)
  expected = { ...expected, hosts: [`127.0.0.1:${port}`, `localhost:${port}`] }
  return {
    link: `http://127.0.0.1:${port}${root}login?once=${options.link}`,
    close() {
      server.close()
      server.closeAllConnections()
    },
  }
}

/** The path of a request can be any text; here it has no `..`. */
const urlOf = ({ url = '' }: IncomingMessage): URL => {
  const path = url.startsWith('/') ? url : '/'
  return new URL(`http://localhost${path}`)
}

/** The path below the folder of the page, with the first slash; undefined for a path elsewhere. */
const pathBelow = (root: string, { pathname }: URL): string | undefined =>
  pathname.startsWith(root) ? pathname.slice(root.length - 1) : undefined

function fileAt(page: Page, path: string): readonly [string, Buffer | undefined] {
  const name = path === '/' ? 'index.html' : path.slice(1)
  return [name, page.get(name as PageFile)]
}

async function listen(server: Server, port: number): Promise<number> {
  try {
    await new Promise<void>((resolve, reject) => {
      server.once('error', reject).listen({ host: '127.0.0.1', port }, resolve)
    })
  } catch (error) {
    throw new Usage(`cannot listen: ${errorText(error)}`, { cause: error })
  }
  return (server.address() as AddressInfo).port
}

const memberOf = <T>(of: { readonly [path: string]: T }, path: string): T | undefined =>
  Object.hasOwn(of, path) ? of[path] : undefined

/** No page of another origin can send it without asking first. */
const textType = 'application/yaml'
/** No object in etcd is larger. */
const mostTextBytes = 1.5 * 1024 * 1024

async function read(
  request: IncomingMessage,
  response: ServerResponse,
  reader: (text: string) => Promise<unknown>,
): Promise<void> {
  if (request.method !== 'POST') return plain(response, 405, 'only POST is supported here')
  if (request.headers['content-type'] !== textType) return plain(response, 415, `the body must be ${textType}`)
  const text = await textIn(request).catch(() => undefined)
  // The browser has cancelled the request.
  if (text === undefined) return void response.destroy()
  if (text.length <= mostTextBytes) return json(response, () => reader(text.toString('utf8')))
  response.setHeader('connection', 'close')
  return plain(response, 413, `the text is larger than ${mostTextBytes} bytes`)
}

/** The body, or a larger part of it than is accepted. */
async function textIn(request: IncomingMessage): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  for await (const chunk of request as AsyncIterable<Buffer>) {
    chunks.push(chunk)
    size += chunk.length
    if (size > mostTextBytes) break
  }
  return Buffer.concat(chunks)
}

function plain(response: ServerResponse, status: number, message: string): void {
  response.writeHead(status, { 'content-type': types['txt'] }).end(`${message}\n`)
}

async function json(response: ServerResponse, answer: () => Promise<unknown>): Promise<void> {
  const [status, body] = await answer().then(
    (value) => [200, value] as const,
    (error) => [error instanceof Usage ? 422 : 500, { message: errorText(error) }] as const,
  )
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(body))
}
