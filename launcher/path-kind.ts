import { lstat } from 'node:fs/promises'

/** With any other error, such as EACCES from storage whose credentials have expired, it is not known what is there. */
const absent = ['ENOENT', 'ENOTDIR', 'ELOOP', 'ENAMETOOLONG']

/** Symbolic links are `other`: whoever can write to a claim must not make the launcher read another file of the pod. */
export async function kindOf(path: string): Promise<'file' | 'directory' | 'block' | 'socket' | 'other' | 'absent'> {
  try {
    const found = await lstat(path)
    if (found.isFile()) return 'file'
    if (found.isDirectory()) return 'directory'
    if (found.isSocket()) return 'socket'
    return found.isBlockDevice() ? 'block' : 'other'
  } catch (error) {
    if (error instanceof Error && 'code' in error && absent.includes(String(error.code))) return 'absent'
    throw error
  }
}
