import { spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, rm } from 'node:fs/promises'
import { fillingLockPath, removeUnfinished } from './fill-file.ts'

/** The lock is only held alone by those who remove files. */
const waitSeconds = 10
/** The file of the lock was removed before it was locked, by the last one to leave, or by a guest with the claim. */
const mostTries = 10

/**
 * Does work that fills a claim. Before and after it, removes what was left unfinished by those who are gone, such as a
 * launcher that was killed, unless someone else fills the claim: all who do share a lock, which ends with their process.
 * Where files cannot be locked, what others have left is removed unless this is a retry: they may have the space that
 * was missing, and still be at work.
 */
export async function whileFilling<T>(directory: string, isRetry: boolean, work: () => Promise<T>): Promise<T> {
  const lock = await enter(directory)
  if (lock === undefined && !isRetry) await removeUnfinished(directory)
  try {
    return await work()
  } finally {
    if (lock !== undefined) await leave(lock, directory)
  }
}

async function enter(directory: string): Promise<FileHandle | undefined> {
  const path = fillingLockPath(directory)
  for (let tries = 0; tries < mostTries; tries++) {
    const file = await openLock(path)
    if (file === undefined) return undefined
    if ((await flock(file, '--exclusive', 0)) && (await isNamed(file, path))) await removeUnfinished(directory)
    const isLocked = await flock(file, '--shared', waitSeconds)
    if (isLocked && (await isNamed(file, path))) return file
    await file.close()
    if (!isLocked) return undefined
  }
  return undefined
}

async function leave(file: FileHandle, directory: string): Promise<void> {
  const path = fillingLockPath(directory)
  try {
    if (!(await flock(file, '--exclusive', 0)) || !(await isNamed(file, path))) return
    await removeUnfinished(directory)
    await rm(path, { force: true })
  } finally {
    await file.close()
  }
}

/** Undefined if a guest with the claim has put something else in its place, or it cannot be created. */
async function openLock(path: string): Promise<FileHandle | undefined> {
  const flags = constants.O_RDWR | constants.O_CREAT | constants.O_NOFOLLOW | constants.O_NONBLOCK
  return open(path, flags).catch(() => undefined)
}

/** Who holds the lock of a file that was removed knows nothing of those who have locked its successor. */
async function isNamed(file: FileHandle, path: string): Promise<boolean> {
  const named = await lstat(path, { bigint: true }).catch(() => undefined)
  const { ino, dev } = await file.stat({ bigint: true })
  return named?.ino === ino && named.dev === dev
}

/**
 * flock(2), which Node does not have. The lock belongs to what is open, so it stays when the program has ended, until
 * the file is closed. It is on a file of its own: on NFS and SMB, it locks the bytes on which QEMU has its locks.
 */
function flock(file: FileHandle, kind: '--exclusive' | '--shared', seconds: number): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>()
  const args = [kind, '--timeout', String(seconds), '3']
  const program = spawn('flock', args, { stdio: ['ignore', 'ignore', 'ignore', file.fd] })
  program.on('error', () => resolve(false))
  program.on('close', (code) => resolve(code === 0))
  return promise
}
