import { mkdir, mkdtemp, readdir, readlink, rm } from 'node:fs/promises'
import { createServer, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { createAttachedSockets } from './attached-sockets.ts'

let directory: string
let handed: string
const servers: Server[] = []
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'sockets-'))
  handed = join(directory, 'handed')
})
afterEach(async () => {
  for (const one of servers.splice(0)) one.close()
  await rm(directory, { recursive: true })
})

/** As the handler moves it there. */
const hand = (podUID: string) =>
  new Promise<void>((resolve) => servers.push(createServer().listen(join(handed, `${podUID}.sock`), () => resolve())))

test('a link leads to the socket of a pod, which stays when the volume is detached', async () => {
  const sockets = await createAttachedSockets(handed, join(directory, 'links'))
  expect(await sockets.connect('data', 'p1')).toBe(false)
  await hand('p1')
  expect(await sockets.connect('data', 'p1')).toBe(true)
  expect(await readlink(sockets.pathOf('data'))).toBe(join(handed, 'p1.sock'))
  await sockets.remove('data')
  expect(await sockets.connect('data', 'p1')).toBe(true)
  await sockets.forget('p1')
  expect(await sockets.connect('data', 'p1')).toBe(false)
})

test('of sockets that no volume uses, the latest stay', async () => {
  const sockets = await createAttachedSockets(handed, join(directory, 'links'))
  await hand('p1')
  await sockets.connect('data', 'p1')
  for (let index = 0; index < 70; index++) await mkdir(join(handed, `old-${index}.sock`))
  await hand('p2')
  await sockets.connect('other', 'p2')
  const left = await readdir(handed)
  expect([left.length, left.includes('p1.sock'), left.includes('p2.sock')]).toEqual([66, true, true])
})
