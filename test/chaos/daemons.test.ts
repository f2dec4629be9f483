import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

import { ensureProcess, isAlive, readRecord, stopProcess, type ProcessDirectories } from '../../cluster/process.ts'
import { crash } from './daemons.ts'

let state: string
let directories: ProcessDirectories
beforeEach(() => {
  state = mkdtempSync(join(tmpdir(), 'daemons-'))
  directories = { records: join(state, 'processes'), logs: join(state, 'log') }
})
afterEach(async () => {
  await stopProcess(directories, 'server')
  rmSync(state, { recursive: true })
})

/** Uses much memory, so that its end takes the kernel a while. */
const server = 'globalThis.memory = Buffer.alloc(64 * 1024 * 1024, 1); setInterval(() => {}, 1000)'

test('a process that crashed has ended before it is started again, with the same command', async () => {
  const command = [process.execPath, '-e', server]
  await ensureProcess(directories, { name: 'server', command })
  const before = readRecord(directories, 'server')
  const start = await crash(directories, state, 'server')
  expect(before && isAlive(before)).toBe(false)
  await start()
  const after = readRecord(directories, 'server')
  expect(after).toMatchObject({ name: 'server', key: before?.key })
  expect(after && isAlive(after)).toBe(true)
})
