import { createHash } from 'node:crypto'
import type { FileHandle } from 'node:fs/promises'
import { type HttpSource, shownUrl } from '../api/http-source.ts'
import { shorten } from '../api/shorten.ts'
import type { Clock } from '../runtime/clock.ts'
import { repeat } from './repeat.ts'

interface DownloadOptions {
  readonly clock: Clock
  /** The largest file that is accepted, in bytes. If absent: what the file system has room for. */
  readonly maxBytes?: bigint
  /**
   * Called with the first sector of the file, and its size if the server states it, so that a file that cannot be used
   * is not downloaded first. Its errors end the download.
   */
  readonly checkHead: (sector: Buffer, bytes: bigint | undefined) => void
  /** Called with the per cent, or with 0 if the server does not state the size. */
  readonly onPercent: (percent: number) => void
  /** Called with the cause when an attempt failed and will be repeated. */
  readonly onRetry: (message: string) => void
}

/** The server or the network is at fault, so another attempt can succeed. */
class Interrupted extends Error {
  override name = 'Interrupted'
}

const maxRedirects = 10
/** A server that sends nothing for this long is given up. */
const silentMs = 60_000

/** The server chooses what is in it: the names in its certificate, or where it redirects to. */
const longestCause = 1000

/** What diskOf reads. */
const sectorBytes = 512

/**
 * Downloads a file, and compares its checksum. What the server does wrong, other than the content of the file, is
 * retried for ever, with an increasing delay. The file is read piece by piece, and its zeros become holes.
 * @param file a new file, which is whole only when this returns. Its name can be another file by now
 * @throws Error for a wrong checksum, a file that is too large, or one that cannot be written
 */
export const download = (source: HttpSource, file: FileHandle, options: DownloadOptions): Promise<void> =>
  repeat(() => attempt(source, file, options), {
    clock: options.clock,
    isTemporary: (error) => error instanceof Interrupted,
    onRetry(message, again) {
      options.onRetry(`${shorten(message, longestCause)}; ${again}`)
      return file.truncate(0)
    },
  })

async function attempt({ url, checksum }: HttpSource, file: FileHandle, options: DownloadOptions): Promise<void> {
  const watch = watchSilence(options.clock)
  try {
    const response = await request(url, watch.signal)
    const stored = await store(response, file, { ...options, algorithm: checksum.split(':')[0] ?? '', watch })
    if (stored.digest === checksum) return
    // The digest is not stated. Whoever creates VMs could have the launcher read what only its pod reaches, as by a
    // redirect, and get it as a disk with that digest. The size tells a page with an error from another image.
    throw new Error(`${shownUrl(url)} does not have the checksum ${checksum}; the server sent ${stored.size} bytes`)
  } finally {
    watch.end()
  }
}

/** Ends a request whose server is silent. */
function watchSilence(clock: Clock) {
  const controller = new AbortController()
  const start = () =>
    clock.after(silentMs, () => controller.abort(new Error(`the server sent nothing for ${silentMs / 1000} s`)))
  let cancel = start()
  return {
    signal: controller.signal,
    heard: () => {
      cancel()
      cancel = start()
    },
    end: () => {
      cancel()
      controller.abort()
    },
  }
}

/** Follows redirects. @throws Interrupted */
async function request(text: string, signal: AbortSignal): Promise<Response> {
  let url = new URL(text)
  for (let redirects = 0; redirects <= maxRedirects; redirects++) {
    // fetch would decompress a body that has another encoding, and the checksum would be of something else.
    const init: RequestInit = { redirect: 'manual', signal, headers: { 'accept-encoding': 'identity' } }
    const response = await fetch(url.href, init).catch((error: unknown) => {
      throw new Interrupted(`${shownUrl(url.href)}: ${wordsOf(error)}`, { cause: error })
    })
    const { status, headers } = response
    const location = headers.get('location')
    if (status < 300 || status > 399 || location === null) {
      if (status !== 200) throw new Interrupted(`${shownUrl(url.href)}: the server responded with status ${status}`)
      const encoding = headers.get('content-encoding') ?? 'identity'
      if (encoding === 'identity') return response
      throw new Interrupted(
        `${shownUrl(url.href)}: the server responded with Content-Encoding ${encoding.slice(0, 40)}`,
      )
    }
    await response.body?.cancel()
    const next = URL.parse(location, url.href)
    if (next === null || !/^https?:$/.test(next.protocol) || next.username + next.password !== '') {
      throw new Interrupted(`${shownUrl(url.href)}: the server redirects to a URL that is not supported`)
    }
    if (url.protocol === 'https:' && next.protocol === 'http:') {
      throw new Interrupted(`${shownUrl(url.href)}: the server redirects from https to http, ${shownUrl(next.href)}`)
    }
    url = next
  }
  throw new Interrupted(`${shownUrl(text)}: the server redirects more than ${maxRedirects} times`)
}

interface StoreOptions extends DownloadOptions {
  readonly algorithm: string
  readonly watch: ReturnType<typeof watchSilence>
}

interface Stored {
  /** As in a checksum, with the algorithm. */
  readonly digest: string
  readonly size: number
}

/** Writes the body of a response to a file. */
async function store(response: Response, file: FileHandle, options: StoreOptions): Promise<Stored> {
  const { algorithm, watch, checkHead, onPercent, maxBytes } = options
  const stated = sizeOf(response)
  const refuseLarger = (bytes: bigint) => {
    if (maxBytes === undefined || bytes <= maxBytes) return
    throw new Error(`${shownUrl(response.url)} has more than ${maxBytes} bytes, which the claim has no room for`)
  }
  if (stated !== undefined) refuseLarger(stated)
  const hash = createHash(algorithm)
  let head = Buffer.alloc(0)
  let size = 0
  for await (const chunk of chunksOf(response)) {
    watch.heard()
    if (head.length < sectorBytes) {
      head = Buffer.concat([head, chunk.subarray(0, sectorBytes - head.length)])
      if (head.length === sectorBytes) checkHead(head, stated)
    }
    hash.update(chunk)
    await writeAt(file, chunk, size)
    size += chunk.length
    refuseLarger(BigInt(size))
    onPercent(stated === undefined || stated === 0n ? 0 : Number((BigInt(size) * 100n) / stated))
  }
  if (stated !== undefined && BigInt(size) !== stated) {
    throw new Interrupted(`${shownUrl(response.url)}: the server sent ${size} bytes of ${stated}`)
  }
  await file.truncate(size)
  return { digest: `${algorithm}:${hash.digest('hex')}`, size }
}

function sizeOf({ headers }: Response): bigint | undefined {
  const text = headers.get('content-length')
  return text !== null && /^\d{1,18}$/.test(text) ? BigInt(text) : undefined
}

/** @throws Interrupted */
async function* chunksOf({ body, url }: Response): AsyncGenerator<Uint8Array> {
  try {
    if (body !== null) yield* body
  } catch (error) {
    throw new Interrupted(`${shownUrl(url)}: the connection was cut off: ${wordsOf(error)}`, { cause: error })
  }
}

const zeros = Buffer.alloc(64 * 1024)

/** Zeros are left out: the file is new. */
async function writeAt(file: FileHandle, chunk: Uint8Array, position: number): Promise<void> {
  for (let done = 0; done < chunk.length;) {
    const part = chunk.subarray(done, done + zeros.length)
    if (zeros.subarray(0, part.length).equals(part)) done += part.length
    else done += (await file.write(part, 0, part.length, position + done)).bytesWritten
  }
}

/** fetch's own message is "fetch failed"; its cause has the reason. */
function wordsOf(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  const { cause } = error
  if (!(cause instanceof Error)) return error.message
  return cause.message || ('code' in cause ? String(cause.code) : cause.name)
}
