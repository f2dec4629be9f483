import { stat } from 'node:fs/promises'

export async function kindOf(path: string): Promise<'file' | 'directory' | 'block' | 'other' | 'absent'> {
  try {
    const found = await stat(path)
    if (found.isFile()) return 'file'
    if (found.isDirectory()) return 'directory'
    return found.isBlockDevice() ? 'block' : 'other'
  } catch {
    return 'absent'
  }
}
