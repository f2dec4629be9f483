import { mkdtemp, rename, rm } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import type { Domain } from '../api/domain/domain.ts'
import { createFile } from './create-file.ts'
import { namesIn, synchronize } from './fill-file.ts'
import { kindOf } from './path-kind.ts'
import { Refused } from './refused.ts'

/**
 * libvirt makes the state of a TPM before its first start, in several steps, and only if it has none: state that was half
 * made when the launcher was killed would be used as it is. So a file beside it is there while it is made. With the file,
 * no guest has used the state.
 */
export const unfinishedTpm = (directory: string): string => `${directory}.unfinished`

/** Without the name of the VM, which leaves no room for six characters more. */
const abandonedTpm = (directory: string): string => join(dirname(directory), 'TPM.unfinished-')

/**
 * To be called before QEMU starts. State that is unfinished is moved aside, not removed: the guest of another VM can
 * share the claim, and put a link in place of the directory.
 * @throws Refused if the file cannot be made or removed, whatever is tried
 */
export async function beginTpms(domain: Domain): Promise<void> {
  for (const directory of stateDirectories(domain)) {
    const path = unfinishedTpm(directory)
    const kind = await kindOf(path)
    if (kind === 'directory') {
      throw new Refused(
        'StartFailed',
        `${path} is a directory, and has to be a file: remove it from the claim of the TPM`,
      )
    }
    const isUnfinished = kind !== 'absent'
    if (!(await hasState(directory))) await mark(path)
    else if (isUnfinished) await rename(directory, join(await mkdtemp(abandonedTpm(directory)), 'state'))
  }
}

/** To be called when libvirt has made the state, before the guest runs. */
export async function finishTpms(domain: Domain): Promise<void> {
  for (const directory of stateDirectories(domain)) {
    const path = unfinishedTpm(directory)
    // Whatever else fails must not look like a file that is not there: it would outlive the guest's first use.
    if (await removed(path)) await synchronize(dirname(path))
  }
}

const removed = (path: string): Promise<boolean> =>
  rm(path).then(
    () => true,
    (error: unknown) => {
      if (error instanceof Error && 'code' in error && error.code === 'ENOENT') return false
      throw error
    },
  )

const stateDirectories = ({ devices }: Domain): string[] =>
  (devices?.tpms ?? []).flatMap(({ backend }) =>
    backend?.type === 'emulator' && backend.source?.type === 'dir' ? (backend.source.path ?? []) : [],
  )

/** As libvirt decides it: without the file that swtpm locks, whose name begins with a dot. */
async function hasState(directory: string): Promise<boolean> {
  if ((await kindOf(directory)) === 'absent') return false
  for await (const name of namesIn(directory)) if (!name.startsWith('.')) return true
  return false
}

async function mark(path: string): Promise<void> {
  await (await createFile(path)).close()
  await synchronize(dirname(path))
}
