import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { fakeClock } from '../../test/fake-clock.ts'
import { until } from '../../test/until.ts'
import { createLogger } from '../../runtime/log.ts'
import { createAuthority, issueLeaf } from './authority.ts'
import { firstFromFiles, keepFromFiles } from './files.ts'
import type { Leaf } from './plan.ts'

test('serves a mounted certificate once it has its key, and a new one once both files have changed', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'virtset-certificates-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const put = (name: string, text: string) => writeFile(join(directory, name), text)
  const clock = fakeClock()
  const authority = await createAuthority(clock.now())
  const leaves = [
    await issueLeaf(authority, ['a'], clock.now()),
    await issueLeaf(authority, ['b'], clock.now()),
  ] as const
  const served: [Leaf, number | undefined][] = []
  const lines: { [key: string]: unknown }[] = []
  const files = {
    directory,
    clock,
    log: createLogger({ process: 'test', to: { write: (line: string) => lines.push(JSON.parse(line)) } }),
    serve: (leaf: Leaf, by: { notAfter: number } | undefined) => void served.push([leaf, by?.notAfter]),
  }
  const stop = new AbortController()
  const names = () => served.map(([leaf]) => leaf.dnsNames[0])
  const first = firstFromFiles(files, stop.signal)
  await put('ca.crt', authority.pem)
  await put('tls.crt', leaves[0].pem)
  // A certificate without its key is not served.
  await until(() => clock.pending() > 0)
  expect(names()).toEqual([])
  expect(lines).toMatchObject([{ level: 'warn', directory, msg: 'no certificate with its key yet; retrying' }])
  await put('tls.key', leaves[0].key)
  await clock.advance(1000)
  const leaf = await first
  expect([names(), served[0]?.[1]]).toEqual([['a'], authority.notAfter])

  const keeping = keepFromFiles(files, leaf, stop.signal)
  await put('tls.crt', leaves[1].pem)
  await until(() => clock.pending() > 0)
  await clock.advance(10_000)
  await until(() => clock.pending() > 0)
  expect(names()).toEqual(['a'])
  await put('tls.key', leaves[1].key)
  await clock.advance(10_000)
  await until(() => served.length === 2)
  // The certificate that is already served is not served again.
  await until(() => clock.pending() > 0)
  await clock.advance(10_000)
  await until(() => clock.pending() > 0)
  expect(names()).toEqual(['a', 'b'])
  stop.abort()
  await keeping
})
