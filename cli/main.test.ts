import { spawnSync } from 'node:child_process'
import { mkdtemp, readdir, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { expect, test } from 'vitest'

test('runs no code from the directory for temporary files, where other users could put some', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'main-'))
  try {
    const { stdout, status } = spawnSync(process.execPath, [resolve('cli/main.ts'), '--version'], {
      encoding: 'utf8',
      env: { TMPDIR: directory },
    })
    expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringContaining('.') })
    expect(await readdir(directory)).toEqual([])
  } finally {
    await rm(directory, { recursive: true })
  }
})
