import { once } from 'node:events'
import { duplexPair, type Duplex } from 'node:stream'
import { buffer } from 'node:stream/consumers'
import { beforeEach, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import { maxScreenshotBytes } from '../runtime/session-api.ts'
import { type FakeClock, fakeClock } from '../test/fake-clock.ts'
import { until } from '../test/until.ts'
import { createScreenshots } from './screenshot.ts'

const png = Buffer.from('89504e470d0a1a0a0000', 'hex')

/** libvirt's ends of the pictures that were requested. */
let pictures: Duplex[]
let clock: FakeClock
let take: ReturnType<typeof createScreenshots>
beforeEach(() => {
  pictures = []
  clock = fakeClock()
  take = createScreenshots({
    open: async () => {
      const [ours, theirs] = duplexPair({ allowHalfOpen: false })
      pictures.push(theirs.on('error', () => {}).resume())
      return ours
    },
    clock,
    log: createLogger({ process: 'launcher', level: 'silent' }),
  })
})

/** Takes a picture that begins with these bytes. */
async function begin(bytes: Buffer) {
  const count = pictures.length
  const taking = take()
  await until(() => pictures.length > count)
  pictures.at(-1)?.write(bytes)
  const session = await taking
  const [ours, theirs] = duplexPair()
  const chunks: Buffer[] = []
  let hasEnded = false
  ours.on('data', (chunk: Buffer) => chunks.push(chunk)).once('end', () => (hasEnded = true))
  session.start(theirs)
  return { client: ours, server: theirs, heard: () => Buffer.concat(chunks), hasEnded: () => hasEnded }
}

test('a picture is sent whole, one at a time', async () => {
  const picture = await begin(png)
  await expect(take()).rejects.toMatchObject({ reason: 'TooManySessions' })
  pictures[0]?.end('rest')
  await until(() => picture.hasEnded())
  expect(picture.heard()).toEqual(Buffer.concat([png, Buffer.from('rest')]))
  await until(() => pictures[0]?.destroyed)
  expect((await begin(png)).hasEnded()).toBe(false)
})

test('a picture is recognized that arrives byte by byte', async () => {
  const taking = take()
  await until(() => pictures.length === 1)
  for (const byte of png) {
    pictures[0]?.write(Buffer.of(byte))
    await new Promise(setImmediate)
  }
  const session = await taking
  const [ours, theirs] = duplexPair()
  session.start(theirs)
  pictures[0]?.end()
  expect(await buffer(ours)).toEqual(png)
})

test('a picture that failed before it was returned is refused, and the next one can be taken', async () => {
  let isFailed = true
  const open = async () => {
    const [ours, theirs] = duplexPair({ allowHalfOpen: false })
    theirs.resume().write(png)
    if (isFailed) await once(ours.destroy(), 'close')
    return ours
  }
  const takeOne = createScreenshots({ open, clock, log: createLogger({ process: 'launcher', level: 'silent' }) })
  await expect(takeOne()).rejects.toMatchObject({ reason: 'NotReady' })
  isFailed = false
  await expect(takeOne()).resolves.toHaveProperty('start')
})

test('a picture that is not a PNG is refused, and the next one can be taken', async () => {
  await expect(begin(Buffer.from('P6 720 400 255\n'))).rejects.toMatchObject({ reason: 'InternalError' })
  expect((await begin(png)).hasEnded()).toBe(false)
})

test('libvirt that sends nothing, or ends, is refused', async () => {
  const silent = take()
  await until(() => pictures.length === 1)
  const refused = silent.catch((error: unknown) => error)
  await clock.advance(30_000)
  expect(await refused).toMatchObject({ reason: 'NotReady' })
  const ended = take()
  await until(() => pictures.length === 2)
  pictures[1]?.end()
  await expect(ended).rejects.toMatchObject({ reason: 'NotReady' })
})

test('a picture without an end is cut', async () => {
  const picture = await begin(png)
  pictures[0]?.write(Buffer.alloc(maxScreenshotBytes))
  await until(() => picture.server.destroyed)
  expect(picture.heard().length).toBeLessThanOrEqual(maxScreenshotBytes)
})

test('a reader that takes nothing loses its picture after 30 s', async () => {
  const picture = await begin(png)
  await clock.advance(30_000)
  await until(() => picture.server.destroyed)
  expect((await begin(png)).hasEnded()).toBe(false)
})
