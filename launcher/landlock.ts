import { execFile } from 'node:child_process'
import { promisify } from 'node:util'

/** `refer` is the right to move a file to another directory. Any use of Landlock denies it unless a rule grants it. */
const rights = 'remove-file,refer'

/**
 * Arguments of setpriv (util-linux) that prevent the command after them, and its children, from removing, replacing or
 * moving a file outside `directories`. Only with Landlock can a process without capabilities restrict another one with
 * its own uid.
 * @param directories must exist
 */
export const landlockArguments = (directories: readonly string[]): string[] => [
  '--no-new-privs',
  '--landlock-access',
  `fs:${rights}`,
  ...directories.flatMap((directory) => ['--landlock-rule', `path-beneath:${rights}:${directory}`]),
]

/** Whether the kernel and the pod's seccomp profile allow Landlock: Linux 5.19 and later, unless disabled at boot. */
export async function isLandlockSupported(directories: readonly string[]): Promise<boolean> {
  try {
    await promisify(execFile)('setpriv', [...landlockArguments(directories), 'true'])
    return true
  } catch {
    return false
  }
}
