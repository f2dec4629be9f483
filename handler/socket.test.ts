import { constants } from 'node:fs'
import { mkdir, mkdtemp, open, readdir, rm, symlink, writeFile } from 'node:fs/promises'
import { createServer, connect, type Server } from 'node:net'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { once } from 'node:events'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import {
  hasAttachmentVolume,
  hasSocketVolume,
  openLauncherSocket,
  openPodHosts,
  pathOf,
  placeAttachmentSocket,
} from './socket.ts'

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

test('without the directory of all pods, nothing is known of the volume', async () => {
  await expect(hasSocketVolume(root, uid)).rejects.toThrow('ENOENT')
  await expect(hasSocketVolume(join(root, 'missing'), uid)).rejects.toThrow('ENOENT')
  await expect(hasAttachmentVolume(root, uid)).rejects.toThrow('ENOENT')
})

test('the volume of the socket is there until the kubelet removes it', async () => {
  await mkdir(join(root, 'pods'))
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

describe('the socket of a pod that serves a claim', () => {
  const helper = '0f0e0d0c-0b0a-4908-8706-050403020111'
  const from = () => join(root, 'pods', helper, 'volumes/kubernetes.io~empty-dir/socket')
  const to = () => join(volume(), 'volumes')
  const place = () => placeAttachmentSocket(root, { podUID: helper, launcherUID: uid })
  const kindsIn = async (directory: string) =>
    (await readdir(directory, { withFileTypes: true })).map(
      (one) => `${one.name} ${one.isSocket() ? 'socket' : one.isSymbolicLink() ? 'link' : 'other'}`,
    )

  beforeEach(async () => {
    await mkdir(from(), { recursive: true })
    await mkdir(to(), { recursive: true })
  })

  test('is moved to the launcher, and reached there', async () => {
    expect(await place()).toBe(false)
    await listen(join(from(), 'nbd.sock'))
    expect(await place()).toBe(true)
    expect([await kindsIn(from()), await kindsIn(to())]).toEqual([[], [`${helper}.sock socket`]])
    const directory = await open(to(), constants.O_DIRECTORY)
    const socket = connect(`${pathOf(directory)}/${helper}.sock`)
    expect(String((await once(socket, 'data'))[0])).toBe('launcher')
    await directory.close()
    // It is still there when nothing new is.
    expect(await place()).toBe(true)
  })

  test('takes the place of the one before', async () => {
    await writeFile(join(to(), `${helper}.sock`), 'old')
    expect(await place()).toBe(false)
    await listen(join(from(), 'nbd.sock'))
    expect(await place()).toBe(true)
  })

  test.each<[string, () => Promise<unknown>]>([
    ['is a link', () => symlink('/etc/passwd', join(from(), 'nbd.sock'))],
    ['is a file', () => writeFile(join(from(), 'nbd.sock'), '')],
    [
      'is in a directory that is a link',
      async () => {
        await rm(from(), { recursive: true })
        await symlink(volume(), from())
      },
    ],
  ])('that %s is not moved', async (_, make) => {
    await make()
    expect(await place()).toBe(false)
    expect(await kindsIn(to())).toEqual([])
  })

  test('is not moved through a link of the launcher', async () => {
    await listen(join(from(), 'nbd.sock'))
    await rm(to(), { recursive: true })
    await symlink(root, to())
    expect(await place()).toBe(false)
    expect(await kindsIn(from())).toEqual(['nbd.sock socket'])
  })

  test('is gone with the volume of its pod', async () => {
    expect(await hasAttachmentVolume(root, helper)).toBe(true)
    await rm(join(root, 'pods', helper), { recursive: true })
    expect([await hasAttachmentVolume(root, helper), await place()]).toEqual([false, false])
  })
})
