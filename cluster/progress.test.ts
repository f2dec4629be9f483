import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, expect, test } from 'vitest'

import { createProgress, formatLine, StepFailed } from './progress.ts'

const logs = mkdtempSync(join(tmpdir(), 'progress-'))
afterAll(() => rmSync(logs, { recursive: true }))

function fakeDisplay(isTerminal: boolean) {
  const written: string[] = []
  const state = { now: 0, ticks: new Set<() => void>() }
  return {
    written,
    advance: (ms: number) => {
      state.now += ms
      for (const tick of state.ticks) tick()
    },
    ticking: () => state.ticks.size,
    display: {
      isTerminal,
      columns: () => 80,
      write: (text: string) => void written.push(text),
      now: () => state.now,
      tick: (callback: () => void) => {
        state.ticks.add(callback)
        return () => void state.ticks.delete(callback)
      },
    },
  }
}

test('a step is one line with its duration and result', async () => {
  const fake = fakeDisplay(false)
  const result = await createProgress(fake.display, logs).step('Base image', 'pray', async (step) => {
    fake.advance(12_340)
    step.show('from the cache')
    return 42
  })
  expect(result).toBe(42)
  expect(fake.written).toEqual([`${formatLine('✓', 'Base image', 12_340, 'from the cache')}\n`])
})

test('a terminal shows a spinner after two seconds, until the end', async () => {
  const fake = fakeDisplay(true)
  await createProgress(fake.display, logs).step('Slow', '', async (step) => {
    fake.advance(1900)
    expect(fake.written).toEqual([])
    step.show('1 of 2')
    fake.advance(200)
    expect(fake.written).toEqual([`\r\x1b[K${formatLine('⠋', 'Slow', 2100, '1 of 2')}`])
    // Longer than the terminal is wide: a wrapped line could not be overwritten.
    step.show('building virtset: STEP 7/10: COPY node_modules node_modules')
    fake.advance(100)
    expect(fake.written.at(-1)?.length).toBe('\r\x1b[K'.length + 79)
  })
  expect(fake.ticking()).toBe(0)
})

test('a failing step shows the error, the end and the path of its log, and what to do', async () => {
  const fake = fakeDisplay(false)
  const failing = createProgress(fake.display, logs).step('Kubernetes binaries', 'look at the disk', async (step) => {
    await step.run(['sh', '-c', 'echo no space left; exit 1'])
  })
  await expect(failing).rejects.toThrow(StepFailed)
  const text = fake.written.join('')
  expect(text).toContain('✗ Kubernetes binaries')
  expect(text).toContain('ended with status 1')
  expect(text).toContain('    no space left')
  expect(text).toContain(`full log: ${join(logs, 'kubernetes-binaries.log')}`)
  expect(text).toContain('what to do: look at the disk')
})
