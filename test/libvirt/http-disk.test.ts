import { randomBytes } from 'node:crypto'
import { mkdir, open, readdir, readFile, rm, truncate, writeFile } from 'node:fs/promises'
import { join, resolve } from 'node:path'
import { afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { type FileAnswer, type FileServer, sha256, startFileServer } from '../file-server.ts'
import { addBlockVolume, attachLoop, detachLoop, inside, qemuImg } from './claim.ts'
import { confine, libvirtRootfs, makeOwned, makeRunDirectory, type RunDirectory } from './rootfs.ts'

/** A claim is filled in the launcher's container, without a launcher. */
const mebibyte = 1024 * 1024
const content = randomBytes(4 * mebibyte)
const other = randomBytes(4 * mebibyte)

let directory: RunDirectory
let server: FileServer
let qcow2: Buffer
/** What the server has. */
let file: Buffer

beforeAll(async () => {
  const { outside } = await makeRunDirectory(libvirtRootfs())
  await writeFile(join(outside, 'raw'), content)
  await qemuImg('convert', '-f', 'raw', '-O', 'qcow2', inside(join(outside, 'raw')), inside(join(outside, 'qcow2')))
  qcow2 = await readFile(join(outside, 'qcow2'))
  await rm(outside, { recursive: true })
})
beforeEach(async () => {
  file = qcow2
  server = await startFileServer()
  directory = await makeRunDirectory(libvirtRootfs())
  for (const name of ['volumes', 'block', 'images', 'sources', 'sources/root', 'scratch'])
    await makeOwned(join(directory.outside, name))
  await mkdir(join(directory.outside, 'project'))
})
afterEach(() => server.close())

/** Returns the messages for the user; the last one is the refusal, if there is one. */
async function fill(checksum = sha256(file)): Promise<readonly string[]> {
  const project = join(directory.inside, 'project')
  const words = [directory.inside, `${server.url}/disk`, checksum]
  const pod = confine({
    rootfs: libvirtRootfs(),
    directory,
    script: `cd ${project} && node_modules/node/bin/node test/libvirt/fill-claim-main.ts ${words.join(' ')} 2>&1`,
    binds: { [project]: resolve(import.meta.dirname, '../..') },
  })
  onTestFinished(() => pod.stop())
  let output = ''
  pod.process.stdout?.on('data', (chunk: Buffer) => (output += chunk.toString()))
  await pod.ended
  return output.split('\n').filter((line) => line !== '')
}

const good = (): FileAnswer => ({ status: 200, body: file })
const half = () => file.length / 2
const cannotBeFilled = 'volume "root": the claim data cannot be filled: '

/** What a server can do, and the cause that is reported; then it sends the file. */
const repairable: [string, () => FileAnswer, string][] = [
  ['responds with 500', () => ({ status: 500 }), 'the server responded with status 500'],
  ['responds with 500 and the file', () => ({ ...good(), status: 500 }), 'the server responded with status 500'],
  ['responds with a part', () => ({ ...good(), status: 206 }), 'the server responded with status 206'],
  [
    'is silent from the beginning',
    () => ({ ...good(), send: 0, isSilent: true }),
    'the connection was cut off: the server sent nothing for 60 s',
  ],
  [
    'is silent midway',
    () => ({ ...good(), send: half(), isSilent: true }),
    'the connection was cut off: the server sent nothing for 60 s',
  ],
  ['resets the connection', () => ({ ...good(), send: half(), isReset: true }), 'the connection was cut off: '],
  ['sends less than it states', () => ({ ...good(), send: half() }), 'the connection was cut off: '],
  [
    'replaces the file, as the ETag tells',
    () => ({ status: 200, body: other, send: half(), etag: '"other"' }),
    'the connection was cut off: ',
  ],
]

/** What another attempt does not repair. */
const fatal: [string, () => FileAnswer, string][] = [
  ['sends another file', () => ({ status: 200, body: other }), 'does not have the checksum sha256:'],
  [
    'ends the file too early, without stating a size',
    () => ({ status: 200, body: file.subarray(0, half()), isChunked: true }),
    'does not have the checksum sha256:',
  ],
]

describe.each(['file', 'block'] as const)('a claim that is a %s', (kind) => {
  /** Where the disk of the claim is. */
  let path: string
  const volume = () => join(directory.outside, 'volumes/root')

  beforeEach(async () => {
    path = join(volume(), 'disk.img')
    if (kind === 'file') return void (await makeOwned(volume()))
    const backing = join(directory.outside, 'backing')
    await writeFile(backing, '')
    await truncate(backing, 8 * mebibyte)
    path = await attachLoop(backing)
    onTestFinished(() => detachLoop(path))
    await addBlockVolume(join(directory.outside, 'block'), path)
  })

  const downloads = () => readdir(join(directory.outside, kind === 'file' ? 'volumes/root' : 'sources/root'))

  async function beginning(bytes: number): Promise<Buffer> {
    await using disk = await open(path)
    return (await disk.read(Buffer.alloc(bytes), 0, bytes, 0)).buffer
  }

  test('is filled from a disk that is no whole number of sectors, and smaller than the mark', async () => {
    file = randomBytes(1636)
    server.answers(good())
    expect((await fill()).filter((message) => message.startsWith(cannotBeFilled))).toEqual([])
    expect(await beginning(4096)).toEqual(Buffer.concat([file, Buffer.alloc(4096 - file.length)]))
  })

  test.each(repairable)('is filled by a server that first %s', async (_, answer, cause) => {
    server.answers(answer(), { ...good(), etag: '"good"' })
    const messages = await fill()
    const failures = messages.filter((message) => message.startsWith(cannotBeFilled))
    expect(failures).toEqual([expect.stringContaining(`${cannotBeFilled}${server.url}/disk: ${cause}`)])
    expect(failures[0]).toMatch(/; trying again in 1 s$/)
    // Each attempt is one for the whole file, so that no disk is made of two.
    expect(server.headers().map(({ range, 'if-range': condition }) => ({ range, condition }))).toEqual([{}, {}])
    expect((await beginning(content.length)).equals(content)).toBe(true)
    expect(await downloads()).toEqual(kind === 'file' ? ['disk.img'] : [])
    expect(await readdir(join(directory.outside, 'scratch'))).toEqual([])
  })

  test.each(fatal)('stays as it is if the server %s', async (_, answer, cause) => {
    server.answers(answer())
    const messages = await fill()
    expect(messages.at(-1)).toContain(`${cannotBeFilled}${server.url}/disk ${cause}`)
    expect(server.requests()).toHaveLength(1)
    expect(await downloads()).toEqual(kind === 'file' ? ['disk.img.filling.unfinished'] : [])
    // A device is as it was, and a file system has no disk.
    const isUsed = kind === 'block' && (await readFile(path)).some((byte) => byte !== 0)
    expect(isUsed).toBe(false)
  })
})
