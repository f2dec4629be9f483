import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { createServer, type IncomingHttpHeaders } from 'node:http'

export interface FileAnswer {
  readonly status: number
  readonly body?: Buffer
  /**
   * Closes the connection after this many bytes of the body, as a server that breaks down, or lies about the length.
   */
  readonly send?: number
  /** Keeps the connection open instead. */
  readonly isSilent?: boolean
  /** Resets the connection instead. */
  readonly isReset?: boolean
  /** The length that is stated, if it is not that of the body. */
  readonly length?: number
  readonly isChunked?: boolean
  readonly location?: string
  readonly encoding?: string
  readonly etag?: string
}

/** A web server that answers each request with the next answer, and then with the last. */
export interface FileServer extends AsyncDisposable {
  readonly url: string
  answers(...answers: readonly FileAnswer[]): void
  requests(): readonly string[]
  /** Of the requests. */
  headers(): readonly IncomingHttpHeaders[]
  close(): Promise<void>
}

export async function startFileServer(address = '127.0.0.1'): Promise<FileServer> {
  let answers: FileAnswer[] = []
  const requests: string[] = []
  const headers: IncomingHttpHeaders[] = []
  const server = createServer((request, response) => {
    const answer = (answers.length > 1 ? answers.shift() : answers[0]) ?? { status: 404 }
    const { status, body = Buffer.alloc(0), send, isSilent = false, isReset = false } = answer
    requests.push(request.url ?? '')
    headers.push(request.headers)
    const { length = body.length, isChunked = false, location, encoding, etag } = answer
    response.writeHead(status, {
      ...(isChunked ? {} : { 'content-length': length }),
      ...(location === undefined ? {} : { location }),
      ...(encoding === undefined ? {} : { 'content-encoding': encoding }),
      ...(etag === undefined ? {} : { etag }),
    })
    const isWhole = send === undefined && length === body.length
    if (isWhole) response.end(body)
    else
      response.write(body.subarray(0, send), () => {
        if (isReset) request.socket.resetAndDestroy()
        else if (!isSilent) response.destroy()
      })
  })
  server.listen(0, address)
  await once(server, 'listening')
  const bound = server.address()
  if (bound === null || typeof bound === 'string') throw new Error('the server has no port')
  const close = async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  }
  return {
    url: `http://${address}:${bound.port}`,
    answers: (...given) => void (answers = [...given]),
    requests: () => requests,
    headers: () => headers,
    close,
    [Symbol.asyncDispose]: close,
  }
}

export const sha256 = (file: Buffer): string => `sha256:${createHash('sha256').update(file).digest('hex')}`
