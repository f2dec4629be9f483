import { execFile } from 'node:child_process'
import { mkdtemp, open, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'

import { convertDisk } from './convert-disk.ts'

test('a pipe in the place of a disk is refused, and not waited for', async () => {
  const folder = await mkdtemp(join(tmpdir(), 'convert-disk-'))
  onTestFinished(() => rm(folder, { recursive: true }))
  const path = join(folder, 'disk.img')
  await promisify(execFile)('mkfifo', [path])
  const target = await open(join(folder, 'target'), 'wx')
  onTestFinished(() => target.close())
  const source = { path, format: 'raw', isDevice: false, bytes: 0n } as const
  await expect(convertDisk(source, target, { offset: 0 }, { scratch: folder, onPercent: () => {} })).rejects.toThrow(
    `${path} is not a file`,
  )
})
