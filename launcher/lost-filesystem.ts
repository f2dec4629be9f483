import { readdir, readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { isRecord } from '../api/schema.ts'
import type { JsonObject } from '../runtime/launcher-api.ts'

/** libvirtd's directories, and the kernel's for processes. */
interface ProcessFiles {
  /** Contains a file with the PID of each virtiofsd. */
  readonly pidFiles: string
  readonly processes: string
}

/**
 * The tags of the file systems whose virtiofsd has ended. QEMU does not notice it, and cannot connect to another one;
 * the guest waits for its requests without end.
 * @param domain the live domain
 */
export async function lostFilesystems(domain: JsonObject | undefined, files: ProcessFiles): Promise<string[]> {
  const served = servedFilesystems(domain)
  if (served.length === 0) return []
  const names = await readdir(files.pidFiles).catch(() => [])
  const lost: string[] = []
  for (const { alias, tag } of served) {
    // ID-NAME-ALIAS-fs.pid, with the ID and the name of the domain. libvirt removes it at the end of the domain.
    const [name] = names.filter((one) => one.endsWith(`-${alias}-fs.pid`)).toSorted((a, b) => a.length - b.length)
    if (name === undefined) continue
    const pid = (await readFile(join(files.pidFiles, name), 'utf8').catch(() => '')).trim()
    if (/^\d+$/.test(pid) && !(await isServing(join(files.processes, pid, 'stat')))) lost.push(tag)
  }
  return lost
}

/** Another process may have got its PID. */
async function isServing(stat: string): Promise<boolean> {
  return /^\d+ \(virtiofsd\) [^ZX]/.test(await readFile(stat, 'utf8').catch(() => ''))
}

function servedFilesystems(domain: JsonObject | undefined): { readonly alias: string; readonly tag: string }[] {
  const list = valueAt(domain, 'devices', 'filesystems')
  if (!Array.isArray(list)) return []
  return list.flatMap((one: unknown) => {
    const [alias, tag] = [valueAt(one, 'alias', 'name'), valueAt(one, 'target', 'dir')]
    const isServed = valueAt(one, 'driver', 'type') === 'virtiofs' && valueAt(one, 'source', 'dir') !== undefined
    return isServed && typeof alias === 'string' && typeof tag === 'string' ? [{ alias, tag }] : []
  })
}

const valueAt = (holder: unknown, ...path: string[]): unknown =>
  path.reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), holder)
