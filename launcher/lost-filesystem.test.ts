import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { JsonObject } from '../runtime/launcher-api.ts'
import { lostFilesystems } from './lost-filesystem.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'virtiofsd-'))
})
afterEach(() => rm(directory, { recursive: true }))

/** A process, and the file with its PID. */
async function serve(alias: string, pid: number, stat: string | undefined): Promise<void> {
  await writeFile(join(directory, `1-test-vm-${alias}-fs.pid`), `${pid}\n`)
  await mkdir(join(directory, String(pid)))
  if (stat !== undefined) await writeFile(join(directory, String(pid), 'stat'), `${pid} ${stat} 1 2 3`)
}

const shared = (alias: string, tag: string, more: JsonObject = {}): JsonObject => ({
  driver: { type: 'virtiofs' },
  source: { dir: '/d' },
  alias: { name: alias },
  target: { dir: tag },
  ...more,
})
const lost = (...filesystems: JsonObject[]) =>
  lostFilesystems({ devices: { filesystems } }, { pidFiles: directory, processes: directory })

test('a file system is lost when its virtiofsd has ended', async () => {
  await serve('fs0', 10, '(virtiofsd) S')
  await serve('fs1', 11, undefined)
  await serve('ua-a', 12, '(virtiofsd) Z')
  await serve('ua-b-ua-a', 13, '(virtiofsd) S')
  await serve('fs4', 14, '(qemu-system-x86) S')
  const tags = [
    shared('fs0', 'a'),
    shared('fs1', 'b'),
    shared('ua-a', 'c'),
    shared('ua-b-ua-a', 'd'),
    shared('fs4', 'e'),
  ]
  expect(await lost(...tags)).toEqual(['b', 'c', 'e'])
})

test('what libvirt does not serve is not lost', async () => {
  await serve('fs0', 10, undefined)
  expect(
    await lost(
      shared('fs0', 'of 9p', { driver: { type: 'path' } }),
      shared('fs0', 'of another server', { source: { socket: '/s' } }),
      shared('fs1', 'not started yet'),
    ),
  ).toEqual([])
  expect(await lostFilesystems(undefined, { pidFiles: '/none', processes: directory })).toEqual([])
})
