import { existsSync, mkdirSync, readFileSync, renameSync } from 'node:fs'
import { truncate } from 'node:fs/promises'
import { join } from 'node:path'

import { keyOf } from './key.ts'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** What the guest prints on its serial console when it runs; `images/iscsi-demo/guest.asm` has the same text. */
export const guestGreeting = 'virtset demo guest is up'
/** Its response to any other line than a command. It loses a press of the power button while it restarts for `boot`. */
export const guestHelp = 'the commands are: halt, boot'
/** Larger than its single sector, like a real disk. */
const diskBytes = 2 * 1024 * 1024

/** Assembles the demo guest's disk from its source. Returns its path. */
export async function guestDisk(step: Step, settings: Settings): Promise<string> {
  const source = join(settings.checkout, 'images/iscsi-demo/guest.asm')
  const directory = join(settings.cache, `guest-${keyOf(readFileSync(source))}`)
  const disk = join(directory, 'disk.img')
  if (existsSync(disk)) return disk
  mkdirSync(directory, { recursive: true })
  const unfinished = `${disk}.unfinished`
  await step.run(['nasm', '-f', 'bin', '-o', unfinished, source])
  await truncate(unfinished, diskBytes)
  renameSync(unfinished, disk)
  return disk
}
