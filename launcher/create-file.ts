import { constants } from 'node:fs'
import { type FileHandle, open, rm } from 'node:fs/promises'

/**
 * Creates a file for reading and writing, in place of one that has its name. In a claim, the guest of another VM can
 * create files and links at any time: a link is never followed, and what is written by the handle is never another
 * file.
 */
export async function createFile(path: string): Promise<FileHandle> {
  await rm(path, { force: true })
  return open(path, constants.O_RDWR | constants.O_CREAT | constants.O_EXCL | constants.O_NOFOLLOW)
}
