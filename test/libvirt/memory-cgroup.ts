import { existsSync } from 'node:fs'
import { chmod, mkdtemp, readFile, rmdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'

import { until } from '../until.ts'

const root = '/sys/fs/cgroup'
const isV2 = existsSync(join(root, 'cgroup.controllers'))

/** A memory cgroup like the kubelet creates for a container. */
export interface MemoryCgroup {
  /** Its path on the host. */
  readonly path: string
  /** Where a container sees `path`, below its `/sys/fs/cgroup`. */
  readonly mountedAt: string
  /** The usage without the page cache, which the kernel frees before it kills. */
  readonly usedBytes: () => Promise<number>
  readonly limit: (bytes: number) => Promise<void>
  /** Succeeds once every process in it has ended. */
  readonly remove: () => Promise<void>
}

/** Supports cgroup v1 and v2. Requires root. */
export async function makeMemoryCgroup(limitBytes: number): Promise<MemoryCgroup> {
  const parent = isV2 ? root : join(root, 'memory')
  const path = await mkdtemp(join(parent, 'virtset-test-'))
  // Every user in a container may read its cgroup.
  await chmod(path, 0o755)
  const write = (name: string, bytes: number) => writeFile(join(path, name), String(bytes))
  const limit = (bytes: number) => write(isV2 ? 'memory.max' : 'memory.limit_in_bytes', bytes)
  await limit(limitBytes)
  return {
    path,
    mountedAt: isV2 ? '' : 'memory',
    usedBytes: async () => {
      const used = await readFile(join(path, isV2 ? 'memory.current' : 'memory.usage_in_bytes'), 'utf8')
      const stat = await readFile(join(path, 'memory.stat'), 'utf8')
      const cached = [...stat.matchAll(/^(?:in)?active_file (\d+)$/gm)].map(([, bytes]) => Number(bytes))
      return cached.reduce((rest, bytes) => rest - bytes, Number(used))
    },
    limit,
    async remove() {
      await until(() => isRemoved(path))
    },
  }
}

/** False while processes that were killed are still leaving the cgroup, which takes a moment. */
async function isRemoved(path: string): Promise<boolean> {
  try {
    await rmdir(path)
    return true
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EBUSY') return false
    throw error
  }
}
