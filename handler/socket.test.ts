import { constants } from 'node:fs'
import { mkdir, mkdtemp, open, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, connect, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { once } from 'node:events'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { hasSocketVolume, openLauncherSocket, openPodHosts, pathOf } from './socket.ts'

const uid = '0f0e0d0c-0b0a-4908-8706-050403020100'
let root: string
let server: Server

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), 'kubelet-'))
  server = createServer((socket) => socket.end('launcher'))
})

afterEach(async () => {
  server.close()
  await rm(root, { recursive: true })
})

const volume = (under = root) => join(under, 'pods', uid, 'volumes/kubernetes.io~empty-dir/sockets')

/** By the directory's descriptor: a socket's path may have 107 bytes at most. */
async function listen(path: string): Promise<void> {
  const directory = await open(dirname(path), constants.O_DIRECTORY)
  server.listen(`${pathOf(directory)}/${basename(path)}`)
  await once(server, 'listening')
  await directory.close()
}

test('connects to the socket that the launcher listens on', async () => {
  await mkdir(volume(), { recursive: true })
  await listen(join(volume(), 'launcher.sock'))

  const handle = await openLauncherSocket(root, uid)
  const socket = connect(pathOf(handle!))
  const [data] = await once(socket, 'data')
  await handle!.close()

  expect(String(data)).toBe('launcher')
})

test('the volume of the socket is there until the kubelet removes it', async () => {
  expect(await hasSocketVolume(root, uid)).toBe(false)
  await mkdir(volume(), { recursive: true })
  expect(await hasSocketVolume(root, uid)).toBe(true)
  await rm(volume(), { recursive: true })
  await symlink(root, volume())
  expect(await hasSocketVolume(root, uid)).toBe(false)
})

test('follows the kubelet’s own root even if it is a link', async () => {
  await mkdir(volume(join(root, 'real')), { recursive: true })
  await listen(join(volume(join(root, 'real')), 'launcher.sock'))
  await symlink(join(root, 'real'), join(root, 'link'))

  const handle = await openLauncherSocket(join(root, 'link'), uid)
  expect(handle).toBeDefined()
  await handle!.close()
})

const absent: [string, () => Promise<void>][] = [
  ['the pod does not exist', async () => {}],
  ['the launcher does not listen yet', async () => void (await mkdir(volume(), { recursive: true }))],
  [
    'the socket is a link to another one',
    async () => {
      await mkdir(volume(), { recursive: true })
      await listen(join(root, 'other.sock'))
      await symlink(join(root, 'other.sock'), join(volume(), 'launcher.sock'))
    },
  ],
  [
    'the socket is a plain file',
    async () => {
      await mkdir(volume(), { recursive: true })
      await writeFile(join(volume(), 'launcher.sock'), '')
    },
  ],
  [
    'a directory on the way is a link',
    async () => {
      await mkdir(join(root, 'elsewhere'), { recursive: true })
      await listen(join(root, 'elsewhere/launcher.sock'))
      await mkdir(join(volume(), '..'), { recursive: true })
      await symlink(join(root, 'elsewhere'), volume())
    },
  ],
]

test.each(absent)('finds no socket when %s', async (_, arrange) => {
  await arrange()
  expect(await openLauncherSocket(root, uid)).toBeUndefined()
})

test('rejects a pod uid that would leave the pods directory', async () => {
  await expect(openLauncherSocket(root, '../..')).rejects.toThrow('not a pod uid')
})

test('a missing root is an error, not an absent socket', async () => {
  await writeFile(join(root, 'file'), '')
  await expect(openLauncherSocket(join(root, 'file'), uid)).rejects.toThrow('ENOTDIR')
})

test('reads the hosts file of the pod', async () => {
  await mkdir(join(root, 'pods', uid), { recursive: true })
  await writeFile(join(root, 'pods', uid, 'etc-hosts'), '10.244.0.7\ttestvm\n')
  const handle = await openPodHosts(root, uid)
  expect(await handle!.readFile('utf8')).toBe('10.244.0.7\ttestvm\n')
  await handle!.close()
})
