import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, afterEach, expect, test } from 'vitest'

import {
  ensureProcess,
  isAlive,
  isZombie,
  parseStartTime,
  readRecord,
  recordedNames,
  stopProcess,
  untilSettled,
} from './process.ts'

const directory = mkdtempSync(join(tmpdir(), 'process-'))
const ledger = { records: join(directory, 'records'), logs: join(directory, 'logs') }
afterEach(() => stopProcess(ledger, 'sleeper'))
afterAll(() => rmSync(directory, { recursive: true }))
const sleeper = { name: 'sleeper', command: ['sleep', '600'] }

const stat = (name: string) => `42 (${name}) S 1 42 42 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 987654 5 1 184 4 1 1 0`

test.each(['sleep', 'two words', 'a) b (c'])('the start time is found behind the name "%s"', (name) => {
  expect(parseStartTime(stat(name))).toBe('987654')
})

test('a zombie is told from the living', () => {
  expect([isZombie(stat('a')), isZombie(stat('a').replace(') S', ') Z'))]).toEqual([false, true])
})

test('a daemon is started once', async () => {
  expect(await ensureProcess(ledger, sleeper)).toBe('started')
  const first = readRecord(ledger, 'sleeper')
  expect(await ensureProcess(ledger, sleeper)).toBe('runs')
  expect(readRecord(ledger, 'sleeper')).toEqual(first)
  expect(recordedNames(ledger)).toEqual(['sleeper'])
})

test.each([
  ['command', { command: ['sleep', '601'] }],
  ['environment', { environment: { A: 'b' } }],
  ['input', { inputs: ['new configuration'] }],
])('with another %s it is started again, and the old one has ended', async (_, change) => {
  await ensureProcess(ledger, sleeper)
  const first = readRecord(ledger, 'sleeper')!
  expect(await ensureProcess(ledger, { ...sleeper, ...change })).toBe('started')
  expect(isAlive(first)).toBe(false)
})

test('one that was killed is started again', async () => {
  await ensureProcess(ledger, sleeper)
  const first = readRecord(ledger, 'sleeper')!
  process.kill(first.pid, 'SIGKILL')
  await expect.poll(() => isAlive(first)).toBe(false)
  expect(await ensureProcess(ledger, sleeper)).toBe('started')
})

test('a record of another boot, or of another process with this pid, is nobody, and nobody is hurt', async () => {
  await ensureProcess(ledger, sleeper)
  const record = readRecord(ledger, 'sleeper')!
  expect(isAlive({ ...record, bootId: 'another' })).toBe(false)
  expect(isAlive({ ...record, startTime: '1' })).toBe(false)
  expect(isAlive(record)).toBe(true)
})

test('to stop is to end it and to forget it', async () => {
  await ensureProcess(ledger, sleeper)
  const record = readRecord(ledger, 'sleeper')!
  await stopProcess(ledger, 'sleeper')
  expect(isAlive(record)).toBe(false)
  expect(recordedNames(ledger)).toEqual([])
  await stopProcess(ledger, 'sleeper')
})

test('what it says is in its log; a program that is not there is said', async () => {
  await ensureProcess(ledger, { name: 'sleeper', command: ['sh', '-c', 'echo hello; exec sleep 600'] })
  await expect.poll(() => readFileSync(join(ledger.logs, 'sleeper.log'), 'utf8')).toBe('hello\n')
  await expect(ensureProcess(ledger, { name: 'x', command: ['/no/such'] })).rejects.toThrow('/no/such does not start')
})

test('a process that ends at once has not settled; one that goes on has', async () => {
  await ensureProcess(ledger, { name: 'sleeper', command: ['false'] })
  await expect(untilSettled(ledger, 'sleeper')).rejects.toThrow(`sleeper has ended: ${ledger.logs}/sleeper.log`)
  await ensureProcess(ledger, sleeper)
  await untilSettled(ledger, 'sleeper')
})
