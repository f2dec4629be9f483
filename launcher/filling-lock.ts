import { spawn } from 'node:child_process'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { diskName, fillingLockPath, removeUnfinished } from './fill-file.ts'
import { kindOf } from './path-kind.ts'

/** How long one attempt waits. The lock is only held alone by those who remove files. */
const waitSeconds = 1
/**
 * The file of the lock can be removed before it is locked, by the last one to leave. And who removes files can need
 * long, or be a guest with the claim that never lets go: after a minute, the claim is filled without the lock.
 */
const mostTries = 60
/** That of flock(1) for a lock that someone else holds. */
const conflictCode = 75

/**
 * Does work that fills a claim. Before and after it, removes what was left unfinished by those who are gone, such as a
 * launcher that was killed, unless someone else fills the claim: all who do share a lock, which ends with their process.
 * Where files cannot be locked, what others have left is removed unless this is a retry: they may have the space that
 * was missing, and still be at work.
 *
 * The file of the lock stays until the claim has a disk. While a launcher waits for space, and after it has failed or was
 * killed, it tells those who would make an empty disk that the claim is to be filled.
 */
export async function whileFilling<T>(directory: string, isRetry: boolean, work: () => Promise<T>): Promise<T> {
  const lock = await enter(directory)
  if (lock === undefined && !isRetry) await removeUnfinished(directory)
  try {
    return await work()
  } finally {
    // The work is done, or has failed for a reason of its own.
    await leave(lock, directory).catch(() => {})
  }
}

async function enter(directory: string): Promise<FileHandle | undefined> {
  const path = fillingLockPath(directory)
  for (let tries = 0; tries < mostTries; tries++) {
    // Undefined if a guest with the claim has put something else in its place, or it cannot be created.
    const file = await open(path, constants.O_RDWR | constants.O_CREAT | safely).catch(() => undefined)
    if (file === undefined) return undefined
    if ((await flock(file, '--exclusive', 0)) === 'locked' && (await isNamed(file, path))) {
      // What cannot be removed is in the way of the work, or of nothing.
      await removeUnfinished(directory).catch(() => {})
    }
    const outcome = await flock(file, '--shared', waitSeconds)
    if (outcome === 'locked' && (await isNamed(file, path))) return file
    await file.close()
    if (outcome === 'impossible') return undefined
  }
  return undefined
}

/** @param file the lock; undefined where files cannot be locked */
async function leave(file: FileHandle | undefined, directory: string): Promise<void> {
  const path = fillingLockPath(directory)
  try {
    if (file !== undefined) {
      if ((await flock(file, '--exclusive', 0)) !== 'locked' || !(await isNamed(file, path))) return
      await removeUnfinished(directory)
    }
    if ((await kindOf(join(directory, diskName))) !== 'absent') await rm(path, { force: true })
  } finally {
    await file?.close()
  }
}

/** A guest can put anything in the place of the file. */
const safely = constants.O_NOFOLLOW | constants.O_NONBLOCK

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
function flock(
  file: FileHandle,
  kind: '--exclusive' | '--shared',
  seconds: number,
): Promise<'locked' | 'conflict' | 'impossible'> {
  const { promise, resolve } = Promise.withResolvers<'locked' | 'conflict' | 'impossible'>()
  const args = [kind, '--timeout', String(seconds), '--conflict-exit-code', String(conflictCode), '3']
  const program = spawn('flock', args, { stdio: ['ignore', 'ignore', 'ignore', file.fd] })
  program.on('error', () => resolve('impossible'))
  program.on('close', (code) => resolve(code === 0 ? 'locked' : code === conflictCode ? 'conflict' : 'impossible'))
  return promise
}
