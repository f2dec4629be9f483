import { mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { outOfMemoryAdvice } from '../api/launcher-memory.ts'
import { outOfMemoryMessage, raiseOomScore, raisedScore, readMemoryUse } from './out-of-memory.ts'

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'cgroup-'))
})

afterEach(() => rm(directory, { recursive: true }))

const mebibytes = (count: number) => count * 2 ** 20

describe('the memory of the container', () => {
  const events = 'low 0\nhigh 0\nmax 7\noom 2\noom_kill 1\noom_group_kill 0\n'
  const control = 'oom_kill_disable 0\nunder_oom 0\noom_kill 3\n'

  test.each([
    ['in cgroup v2', { 'memory.events': events, 'memory.max': '1000\n', 'memory.peak': '900\n' }, [1, 1000, 900]],
    ['in cgroup v2, without a limit', { 'memory.events': events, 'memory.max': 'max\n' }, [1, undefined, undefined]],
    [
      'in cgroup v1',
      {
        'memory/memory.oom_control': control,
        'memory/memory.limit_in_bytes': '1000\n',
        'memory/memory.max_usage_in_bytes': '900\n',
      },
      [3, 1000, 900],
    ],
    [
      'in cgroup v1, without a limit',
      { 'memory/memory.oom_control': control, 'memory/memory.limit_in_bytes': '9223372036854771712\n' },
      [3, undefined, undefined],
    ],
    ['if no cgroup can be read', {}, [0, undefined, undefined]],
  ] as const)('%s', async (_, files, expected) => {
    for (const [name, content] of Object.entries(files)) {
      await mkdir(dirname(join(directory, name)), { recursive: true })
      await writeFile(join(directory, name), content)
    }
    const { oomKills, limitBytes, peakBytes } = await readMemoryUse(directory)
    expect([oomKills, limitBytes, peakBytes]).toEqual(expected)
  })
})

test.each([
  [
    { oomKills: 1, limitBytes: mebibytes(200), peakBytes: mebibytes(200) },
    `the kernel killed QEMU because memory ran out: the launcher pod reached its limit of 200 MiB; ${outOfMemoryAdvice}`,
  ],
  [
    { oomKills: 1, limitBytes: mebibytes(200), peakBytes: mebibytes(100) },
    'the kernel killed QEMU because memory ran out on the node; the launcher pod used at most 100 MiB of its limit of 200 MiB',
  ],
  [{ oomKills: 1 }, 'the kernel killed QEMU because memory ran out on the node'],
])('reports for %j why QEMU was killed', (use, message) => expect(outOfMemoryMessage(use)).toBe(message))

test.each([
  ['a small container with the score that the kubelet gives it', 990, mebibytes(250), 1000],
  ['a small container with a low score', -997, mebibytes(256), -497],
  ['a large container: just enough for QEMU to be killed first', 500, mebibytes(64 * 1024), 502],
  ['a container without a limit', 500, undefined, 501],
])('the score of QEMU in %s', (_, own, limit, expected) => expect(raisedScore(own, limit)).toBe(expected))

test('the score of a process can be raised without a privilege', async () => {
  const child = spawn('sleep', ['60'])
  await once(child, 'spawn')
  const { pid } = child
  if (pid === undefined) throw new Error('a process that was spawned has a pid')
  const own = Number(await readFile('/proc/self/oom_score_adj', 'utf8'))
  await raiseOomScore(pid, { oomKills: 0 })
  expect(Number(await readFile(`/proc/${pid}/oom_score_adj`, 'utf8'))).toBe(Math.min(own + 1, 1000))
  child.kill()
})
