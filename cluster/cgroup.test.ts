import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'

import { foldersBelow, processesOf } from './cgroup.ts'

test('a group that was removed has no processes and no groups', () => {
  const group = mkdtempSync(join(tmpdir(), 'virtset-cgroup-'))
  writeFileSync(join(group, 'cgroup.procs'), '12\n345\n')
  mkdirSync(join(group, 'pod/container'), { recursive: true })
  expect([processesOf(group), foldersBelow(group)]).toEqual([
    [12, 345],
    ['pod', 'pod/container'],
  ])
  rmSync(group, { recursive: true })
  expect([processesOf(group), foldersBelow(group)]).toEqual([[], []])
})
