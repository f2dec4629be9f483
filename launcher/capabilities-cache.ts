import { mkdir, readFile, readdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import type { CapabilitiesCache } from '../runtime/launcher-api.ts'

/**
 * libvirtd's cache of what QEMU can do, below its XDG_CACHE_HOME. There is one file for each QEMU, named after the hash
 * of its path.
 */
const folder = 'libvirt/qemu/cache/capabilities'

/** The cache of the QEMU for x86_64. @throws Error if libvirtd has not queried it yet */
export async function readCapabilities(cacheHome: string): Promise<CapabilitiesCache> {
  const directory = join(cacheHome, folder)
  for (const name of await readdir(directory)) {
    const text = await readFile(join(directory, name), 'utf8')
    if (text.includes('<arch>x86_64</arch>')) return { name, text }
  }
  throw new Error(`libvirtd has cached no capabilities of a QEMU for x86_64 in ${directory}`)
}

/**
 * Stores the cache of another libvirtd, so that this one need not query QEMU, which takes half a second. libvirtd reads
 * it before it defines its first domain. It ignores a cache of another node or build, and one that was written with KVM
 * if this container has none, or without.
 */
export async function storeCapabilities(cacheHome: string, { name, text }: CapabilitiesCache): Promise<void> {
  const directory = join(cacheHome, folder)
  await mkdir(directory, { recursive: true, mode: 0o700 })
  await writeFile(join(directory, name), text, { flag: 'wx', mode: 0o600 }).catch((error: unknown) => {
    // libvirtd has queried QEMU already.
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return
    throw error
  })
}
