import { createHash } from 'node:crypto'
import { mkdtemp, open, readdir, readFile, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Clock } from '../runtime/clock.ts'
import { type FileAnswer, type FileServer, sha256, startFileServer } from '../test/file-server.ts'
import { download } from './download.ts'
import { downloadDisk } from './http-disk.ts'

const file = Buffer.concat([Buffer.alloc(100_000, 1), Buffer.alloc(200_000), Buffer.alloc(4321, 2)])
const good: FileAnswer = { status: 200, body: file }

let server: FileServer
let directory: string
let waited: number[]
let retries: string[]
let percents: number[]

beforeEach(async () => {
  server = await startFileServer()
  directory = await mkdtemp(join(tmpdir(), 'download-'))
  waited = []
  retries = []
  percents = []
})
afterEach(async () => {
  await server.close()
  await rm(directory, { recursive: true })
})

/** Retries come at once; the time-out of a silent server never does. */
const clock: Clock = {
  now: () => 0,
  monotonic: () => 0,
  after(delayMs, run) {
    if (delayMs === 60_000) return () => {}
    waited.push(delayMs)
    const timer = setTimeout(run, 0)
    return () => clearTimeout(timer)
  },
}

const path = () => join(directory, 'file')
const reports = {
  place: 'its file system',
  clock,
  onPercent: (percent: number) => percents.push(percent),
  onRetry: (message: string) => retries.push(message.replaceAll(server.url, 'http://server')),
}
const source = (more: object = {}) => ({ url: `${server.url}/a?token=hidden`, checksum: sha256(file), ...more })
const get = async (more: object = {}, limits: object = {}) => {
  const { temporary, ...disk } = await downloadDisk(source(more), { path: path(), ...reports, ...limits })
  await temporary?.close()
  return disk
}

test('a cause that the server chooses is shortened', async () => {
  server.answers({ status: 302, location: `${server.url}/${'a'.repeat(10_000)}` }, { status: 500 }, good)
  await get()
  expect(retries).toEqual([expect.stringMatching(/^http:\/\/server\/a+…; trying again in 1 s$/)])
  expect(retries[0]?.length).toBeLessThan(1100)
})

test('a file is downloaded and examined', async () => {
  server.answers(good)
  expect(await get()).toEqual({ path: path(), format: 'raw', bytes: 304_321n, isDevice: false })
  expect((await readFile(path())).equals(file)).toBe(true)
  expect(percents.at(-1)).toBe(100)
  expect(retries).toEqual([])
})

test('the server does not have to state the size, and can use SHA-512', async () => {
  server.answers({ ...good, isChunked: true })
  const checksum = `sha512:${createHash('sha512').update(file).digest('hex')}`
  expect(await get({ checksum })).toMatchObject({ bytes: 304_321n })
})

const head = 'http://server/a'
test.each<[string, FileAnswer, string]>([
  ['404', { status: 404 }, `${head}: the server responded with status 404`],
  ['500 with a body', { status: 500, body: file }, `${head}: the server responded with status 500`],
  ['206', { status: 206, body: file }, `${head}: the server responded with status 206`],
  ['cut off', { ...good, send: 120_000 }, `${head}: the connection was cut off: `],
  ['a length that is too large', { ...good, length: 400_000 }, `${head}: the connection was cut off: `],
  [
    'a redirect to a file',
    { status: 302, location: 'file:///etc/passwd' },
    `${head}: the server redirects to a URL that is not supported`,
  ],
  [
    'a redirect with a password',
    { status: 302, location: 'http://me:hidden@server/' },
    `${head}: the server redirects to a URL that is not supported`,
  ],
  [
    'compression',
    { status: 200, body: gzipSync(file), encoding: 'gzip' },
    `${head}: the server responded with Content-Encoding gzip`,
  ],
])('is retried with an increasing delay: %s', async (_, answer, message) => {
  server.answers(answer, answer, answer, good)
  expect(await get()).toMatchObject({ bytes: 304_321n })
  expect((await readFile(path())).equals(file)).toBe(true)
  expect(retries[0]).toContain(message)
  expect(retries.map((one) => one.slice(one.lastIndexOf(';')))).toEqual([
    '; trying again in 1 s',
    '; trying again in 2 s',
    '; trying again in 4 s',
  ])
  expect(waited).toEqual([1000, 2000, 4000])
  expect(retries.join()).not.toContain('hidden')
})

test('redirects that do not end are an error', async () => {
  const redirects = Array.from({ length: 11 }, () => ({ status: 302, location: '/b' }))
  server.answers(...redirects, good)
  await get()
  expect(retries).toEqual(['http://server/a: the server redirects more than 10 times; trying again in 1 s'])
})

test.each([
  ['no server', () => 'http://127.0.0.1:9/a', /^http:\/\/127\.0\.0\.1:9\/a: .*(?:refused|bad port)/i],
  ['TLS', () => `https://127.0.0.1:${new URL(server.url).port}/a`, /^https:\S+: .*(?:SSL|TLS|wrong version)/i],
])('reports why a connection failed: %s', async (_, url, message) => {
  const ended = new Error('enough')
  const onRetry = (text: string) => {
    retries.push(text)
    throw ended
  }
  await expect(get({ url: url() }, { onRetry })).rejects.toBe(ended)
  expect(retries[0]).toMatch(message)
})

test.each<[string, FileAnswer, object, object, RegExp]>([
  ['another file', { ...good, body: Buffer.alloc(9) }, {}, {}, /does not have the checksum sha256:/],
  ['a compressed file', { ...good, body: gzipSync(file) }, { checksum: sha256(gzipSync(file)) }, {}, /the format gzip/],
  ['an empty file', { status: 200 }, { checksum: sha256(Buffer.alloc(0)) }, {}, /is empty/],
  ['a disk that is too large', good, {}, { maxBytes: 304_320n }, /is a disk of 304321 bytes, .* has 304320/],
  ['a larger one of unstated size', { ...good, isChunked: true }, {}, { maxBytes: 304_320n }, /is a disk of 304321/],
  ['a file that is too large', { ...good, isChunked: true }, {}, { maxFileBytes: 200_000n }, /more than 200000 bytes/],
])('fails, is not retried, and leaves nothing: %s', async (_, answer, more, limits, message) => {
  server.answers(answer)
  await expect(get(more, limits)).rejects.toThrow(message)
  expect(retries).toEqual([])
  expect(await readdir(directory)).toEqual([])
})

test('the checksum of another file is not stated, because it would make the file a disk', async () => {
  const secret = Buffer.from('what only the pod of the launcher reaches')
  await using inner = await startFileServer()
  inner.answers({ status: 200, body: secret })
  server.answers({ status: 302, location: inner.url })
  const { url, checksum } = source()
  const message = `${server.url}/a does not have the checksum ${checksum}; the server sent ${secret.length} bytes`
  await expect(get({ url })).rejects.toThrow(new Error(message))
})

test('a full disk is not retried', async () => {
  server.answers(good)
  await using full = await open('/dev/full', 'w')
  await expect(download(source(), full, { ...reports, checkHead: () => {} })).rejects.toThrow(/ENOSPC/)
  expect(retries).toEqual([])
})

test('a server that is silent is given up', async () => {
  server.answers({ ...good, send: 1000, isSilent: true })
  const hurried: Clock = { ...clock, after: (_, run) => clock.after(1, run) }
  const ended = new Error('enough')
  const onRetry = (text: string) => {
    retries.push(text)
    throw ended
  }
  await expect(get({}, { clock: hurried, onRetry })).rejects.toBe(ended)
  expect(retries[0]).toContain('the server sent nothing for 60 s')
})
