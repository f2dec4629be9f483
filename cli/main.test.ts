import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, open, readdir, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { type FakeApiServer, startFakeApiServer } from '../test/fake-apiserver.ts'

let directory: string

beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'main-'))
})

afterEach(() => rm(directory, { recursive: true }))

test('runs no code from the directory for temporary files, where other users could put some', async () => {
  const { stdout, status } = spawnSync(process.execPath, [resolve('cli/main.ts'), '--version'], {
    encoding: 'utf8',
    env: { TMPDIR: directory },
  })
  expect({ status, stdout }).toEqual({ status: 0, stdout: expect.stringContaining('.') })
  expect(await readdir(directory)).toEqual([])
})

describe('when its output cannot be written', () => {
  type How = 'read' | 'closed' | 'full'
  const configs = '/apis/virtset.io/v1alpha1/virtualmachineconfigs'
  let server: FakeApiServer

  beforeEach(async () => {
    server = await startFakeApiServer()
    server.fault = ({ method }) =>
      method === 'POST' ? { status: 201, body: { kind: 'VirtualMachine', metadata: { uid: 'u' } } } : undefined
    const kubeconfig = {
      'current-context': 'c',
      contexts: [{ name: 'c', context: { cluster: 'c', user: 'u' } }],
      clusters: [{ name: 'c', cluster: { server: server.url, 'insecure-skip-tls-verify': true } }],
      users: [{ name: 'u', user: { token: 't' } }],
    }
    await writeFile(join(directory, 'config'), JSON.stringify(kubeconfig))
  })

  afterEach(() => server.close())

  /** Undefined in place of what nobody reads. */
  async function vm(words: readonly string[], [out, err]: readonly [How, How]) {
    const full = await open('/dev/full', 'w')
    const [first, second] = [out, err].map((how) => (how === 'full' ? full.fd : 'pipe'))
    const child = spawn(process.execPath, [resolve('cli/main.ts'), ...words], {
      stdio: ['ignore', first, second],
      env: { KUBECONFIG: join(directory, 'config') },
    })
    const read = async (stream: Readable | null, how: How) => {
      if (how === 'read' && stream !== null) return text(stream)
      stream?.destroy()
      return undefined
    }
    const [[code], ...texts] = await Promise.all([
      once(child, 'close'),
      read(child.stdout, out),
      read(child.stderr, err),
    ])
    await full.close()
    return [code, ...texts]
  }

  const started = 'virtualmachineconfig.virtset.io/web started\n'
  test.each<[How, How, string, number, string | undefined, string | undefined]>([
    ['closed', 'read', 'Failed', 1, undefined, 'web: Failed\n'],
    ['read', 'closed', 'Running', 0, started, undefined],
    ['full', 'full', 'Running', 0, undefined, undefined],
  ])('%s, and errors %s: a command that writes to the cluster goes on: %s', async (o, e, phase, ...expected) => {
    const status = { phase, instance: { name: 'web', uid: 'u' } }
    server.put(configs, { metadata: { namespace: 'default', name: 'web' }, spec: {}, status })
    expect(await vm(['start', 'web', '--wait'], [o, e])).toEqual(expected)
  })

  test.each<[How, How, number, string | undefined]>([
    ['closed', 'read', 0, ''],
    ['full', 'read', 2, 'error: standard output cannot be written: ENOSPC: no space left on device, write\n'],
  ])('%s, and errors %s: a command that only prints ends with %i', async (o, e, code, printed) => {
    expect(await vm(['completion', 'bash'], [o, e])).toEqual([code, undefined, printed])
  })
})
