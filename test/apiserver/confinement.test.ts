import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { expect, test } from 'vitest'
import { confine, limitsOf } from '../confinement.ts'
import type { Limits, Usage } from '../confinement.ts'

async function runConfined(limits: Limits, script: string): Promise<{ signal: unknown; usage: Usage }> {
  const confinement = confine(limits)
  const [program, ...rest] = confinement.wrap([process.execPath, '-e', script])
  const child = spawn(program, rest)
  const [, signal] = await once(child, 'exit')
  const usage = confinement.usage()
  confinement.remove()
  return { signal, usage }
}

const mebibyte = 1024 * 1024

test.each([
  ['manifests/webhooks/deployment.yaml', 'webhooks', { memoryBytes: 512 * mebibyte }],
  ['manifests/handler/daemonset.yaml', 'handler', { memoryBytes: 320 * mebibyte }],
])('the limits of %s, container %s, are read from it', (manifest, container, limits) => {
  expect(limitsOf(manifest, container)).toEqual(limits)
})

test('fails for a container that the manifest does not have', () => {
  expect(() => limitsOf('manifests/webhooks/deployment.yaml', 'nginx')).toThrow('has no container nginx')
})

test('a process that uses more memory than its limit is killed, and counted', async () => {
  const { signal, usage } = await runConfined({ memoryBytes: 128 * mebibyte }, 'Buffer.alloc(512 * 1024 * 1024, 1)')
  expect([signal, usage.oomKills]).toEqual(['SIGKILL', 1])
  expect(usage.peakBytes).toBeGreaterThan(120 * mebibyte)
})

test('a process below its limits ends by itself, and its memory and CPU time are measured', async () => {
  const script = 'Buffer.alloc(64 * 1024 * 1024, 1); const end = Date.now() + 300; while (Date.now() < end);'
  const { signal, usage } = await runConfined({ memoryBytes: 512 * mebibyte, cpus: 1 }, script)
  expect([signal, usage.oomKills]).toEqual([null, 0])
  expect(usage.peakBytes).toBeGreaterThan(64 * mebibyte)
  expect(usage.cpuSeconds).toBeGreaterThan(0.01)
})

test('a process gets no more CPU time than its limit', async () => {
  const startedMs = performance.now()
  const script = 'const end = process.hrtime.bigint() + 500_000_000n; while (process.hrtime.bigint() < end);'
  const { usage } = await runConfined({ cpus: 0.2 }, script)
  const wallSeconds = (performance.now() - startedMs) / 1000
  // A period of 0.1 s that had just begun counts whole.
  expect(usage.cpuSeconds).toBeLessThan(0.2 * (wallSeconds + 0.2))
})
