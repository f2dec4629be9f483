import { mkdir, mkdtemp, readdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Clock } from '../runtime/clock.ts'
import { downloadFailed } from '../runtime/launcher-api.ts'
import { failLooks } from '../test/failing-looks.ts'
import { type FileAnswer, type FileServer, sha256, startFileServer } from '../test/file-server.ts'
import { qcow2Header } from '../test/qcow2.ts'
import { HeldDevices } from './held-device.ts'
import { type OnProgress, prepareClaim } from './claim-disk.ts'
import { createAttemptWithMoreRoom } from './no-space.ts'

const body = Buffer.alloc(300_000, 1)
const victim = 'a file of the launcher that the guest of another VM cannot reach'

let server: FileServer
let pod: string
let directory: string

beforeEach(async () => {
  server = await startFileServer()
  pod = await mkdtemp(join(tmpdir(), 'pod-'))
  directory = join(pod, 'files/data')
  await mkdir(directory, { recursive: true })
  await mkdir(join(pod, 'sources/data'), { recursive: true })
  await writeFile(join(pod, 'victim'), victim)
})
afterEach(async () => {
  await server.close()
  await rm(pod, { recursive: true })
})

/** Retries come at once; the time-out of a silent server never does. */
const clock: Clock = {
  now: () => 0,
  monotonic: () => 0,
  after(delayMs, run) {
    if (delayMs === 60_000) return () => {}
    const timer = setTimeout(run, 100)
    return () => clearTimeout(timer)
  },
}

const prepare = (onProgress: OnProgress, isRetry = false, capacity?: string) =>
  prepareClaim(
    'data',
    {
      claimName: 'data',
      source: { http: { url: `${server.url}/disk`, checksum: sha256(body) } },
      ...(capacity === undefined ? {} : { capacity }),
    },
    {
      directory,
      block: join(pod, 'blocks/data'),
      image: join(pod, 'images/data'),
      sourceDirectory: join(pod, 'sources/data'),
      sourceBlock: join(pod, 'blocks/data.source'),
      scratch: pod,
      writer: 'vm-1',
      use: { isWriter: true, isShared: false },
      devices: new HeldDevices(clock),
      isRetry,
      attemptWithMoreRoom: createAttemptWithMoreRoom(),
      clock,
      onProgress,
    },
  )

test('a claim is filled from a web server after an attempt that failed', async () => {
  server.answers({ status: 200, body, send: 1000 }, { status: 200, body })
  expect(await prepare(() => {})).toMatchObject({ kind: 'file', path: join(directory, 'disk.img') })
  expect((await readFile(join(directory, 'disk.img'))).equals(body)).toBe(true)
  expect(await readdir(directory)).toEqual(['disk.img'])
})

test.each([
  { attempt: 'the first attempt', isRetry: false },
  { attempt: 'one after there was no space', isRetry: true },
])('$attempt removes the file of a VM that was killed while it filled the claim', async ({ isRetry }) => {
  server.answers({ status: 200, body })
  await writeFile(join(directory, 'disk.img.vm-2.unfinished'), 'half')
  await prepare(() => {}, isRetry)
  expect(await readdir(directory)).toEqual(['disk.img'])
})

/** That of those who fill the claim, which stays until it has a disk. */
const lock = 'disk.img.filling.unfinished'

test('a claim whose download has another checksum gets no disk, and the next attempt fills it', async () => {
  server.answers({ status: 500 }, { status: 200, body: Buffer.alloc(300_000, 2) }, { status: 200, body })
  await expect(prepare(() => {})).rejects.toThrow('does not have the checksum sha256:')
  expect(await readdir(directory)).toEqual([lock])
  expect(await prepare(() => {})).toMatchObject({ kind: 'file' })
  expect((await readFile(join(directory, 'disk.img'))).equals(body)).toBe(true)
})

test.each<[string, FileAnswer]>([
  ['a file without end', { status: 200, body: Buffer.alloc(66 * 1024 * 1024), isChunked: true }],
  [
    'a small disk in one',
    { status: 200, body: Buffer.concat([qcow2Header(), Buffer.alloc(66 * 1024 * 1024)]), isChunked: true },
  ],
  ['a small disk in a file whose size it states', { status: 200, body: qcow2Header(), length: 2 ** 40 }],
])('a server cannot fill the file system of a claim with a capacity: %s', async (_, answer) => {
  server.answers(answer, { status: 200, body: Buffer.alloc(9) })
  await expect(prepare(() => {}, false, '1Mi')).rejects.toThrow('has more than 68222976 bytes, which the claim')
  expect(await readdir(directory)).toEqual([lock])
})

test('a claim that may not be looked at is refused with the reason', async () => {
  failLooks('EACCES')
  await expect(prepare(() => {})).rejects.toMatchObject({
    name: 'Refused',
    reason: 'VolumeUnavailable',
    message: 'volume "data": the claim data cannot be opened: EACCES',
  })
})

test('a link that the guest of another VM plants in the claim is never written through, nor used', async () => {
  server.answers({ status: 503 }, { status: 200, body })
  let planted: Promise<void> | undefined
  const plant = async () => {
    for (const name of await readdir(directory)) {
      await rm(join(directory, name))
      await symlink('../../victim', join(directory, name))
    }
  }
  const prepared = prepare((_, reason) => {
    if (reason === downloadFailed) planted ??= plant()
  })
  await expect(prepared).rejects.toThrow('is not the file that was filled')
  await planted
  expect(await readFile(join(pod, 'victim'), 'utf8')).toBe(victim)
  await expect(prepare(() => {})).rejects.toThrow('has no file disk.img')
})
