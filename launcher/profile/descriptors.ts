import { readFile, readdir, readlink } from 'node:fs/promises'
import { join } from 'node:path'

/** As in libvirt and `qemu-firmware(7)`: a file in a later folder hides one of the same name in an earlier one. */
const folders = ['usr/share/qemu/firmware', 'etc/qemu/firmware']

/** The texts of the firmware descriptors below a root directory, by file name. */
export async function readDescriptors(root: string): Promise<ReadonlyMap<string, string>> {
  const texts = new Map<string, string>()
  for (const folder of folders) {
    for (const name of await namesIn(join(root, folder))) texts.set(name, await textOf(root, folder, name))
  }
  return texts
}

async function namesIn(folder: string): Promise<string[]> {
  try {
    return await readdir(folder)
  } catch (error) {
    if (isAbsent(error)) return []
    throw error
  }
}

/** A link to /dev/null hides the descriptor of this name; other links stay below the root. */
async function textOf(root: string, folder: string, name: string): Promise<string> {
  const path = join(root, folder, name)
  const target = await readlink(path).catch(() => undefined)
  if (target === '/dev/null') return ''
  return readFile(target?.startsWith('/') ? join(root, target) : path, 'utf8')
}

const isAbsent = (error: unknown): boolean => error instanceof Error && 'code' in error && error.code === 'ENOENT'
