import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { delimiter, join, relative } from 'node:path'
import { afterEach, expect, it, vi } from 'vitest'
import { readKubeconfig } from './kubeconfig.ts'

const opened: string[] = []
afterEach(async () => {
  vi.unstubAllEnvs()
  for (const directory of opened.splice(0)) await rm(directory, { recursive: true })
})

/** Writes each kubeconfig into a directory of its own. */
async function write(files: Readonly<Record<string, object>>): Promise<string> {
  const root = await mkdtemp(join(tmpdir(), 'kubeconfig-'))
  opened.push(root)
  for (const [name, content] of Object.entries(files)) {
    await mkdir(join(root, name))
    await writeFile(join(root, name, 'config'), JSON.stringify(content))
  }
  return root
}

const users = (...all: readonly (readonly [name: string, user: object])[]) => ({
  users: all.map(([name, user]) => ({ name, user })),
})
const exec = (command: string) => ({ exec: { apiVersion: 'client.authentication.k8s.io/v1', command } })

it.each(['absolute', 'relative'])(
  'resolves paths against the directory of the kubeconfig, whose own is %s',
  async (how) => {
    const root = await write({
      a: {
        clusters: [{ name: 'c', cluster: { server: 'https://c', 'certificate-authority': 'ca.crt' } }],
        ...users(
          ['certificate', { 'client-certificate': 'tls/c.crt', 'client-key': '../c.key' }],
          ['file', { tokenFile: 'token' }],
          ['absolute', { tokenFile: '/run/token' }],
          ['beside', exec('./plugin')],
          ['below', exec('bin/plugin')],
          ['anywhere', exec('/usr/bin/plugin')],
          ['in PATH', exec('plugin')],
        ),
      },
    })
    const file = join(root, 'a', 'config')
    const read = readKubeconfig({ file: how === 'absolute' ? file : relative(process.cwd(), file) })
    const paths = read.users.map(({ name, certFile, keyFile, tokenFile, exec: plugin }) => [
      name,
      ...[certFile, keyFile, tokenFile, plugin?.command].filter((path) => path !== undefined),
    ])
    expect([read.config.getCluster('c')?.caFile, paths]).toEqual([
      `${root}/a/ca.crt`,
      [
        ['certificate', `${root}/a/tls/c.crt`, `${root}/c.key`],
        ['file', `${root}/a/token`],
        ['absolute', '/run/token'],
        ['beside', `${root}/a/plugin`],
        ['below', `${root}/a/bin/plugin`],
        ['anywhere', '/usr/bin/plugin'],
        ['in PATH', 'plugin'],
      ],
    ])
  },
)

it('reads each file in KUBECONFIG, of which the first decides', async () => {
  const context = (user: string) => ({ name: 'x', context: { cluster: 'c', user } })
  const root = await write({
    a: { ...users(['one', exec('./plugin')]), contexts: [] },
    b: { ...users(['two', { tokenFile: 'token' }]), contexts: [context('two')], 'current-context': 'x' },
    c: { ...users(['one', exec('./other')]), contexts: [context('one')], 'current-context': 'y' },
  })
  const files = ['a', 'b', 'c'].map((name) => join(root, name, 'config'))
  const { config, users: all } = readKubeconfig({ environment: { KUBECONFIG: files.join(delimiter) } })
  expect([config.getCurrentContext(), config.getCurrentUser()?.name]).toEqual(['x', 'two'])
  expect(config.getUser('one')?.exec.command).toBe(`${root}/a/plugin`)
  expect(all.find(({ name }) => name === 'two')?.tokenFile).toBe(`${root}/b/token`)
})

it('reads ~/.kube/config without KUBECONFIG', async () => {
  const root = await write({ '.kube': { ...users(['one', exec('./plugin')]), 'current-context': 'x' } })
  vi.stubEnv('HOME', root)
  const { config } = readKubeconfig({ environment: { KUBECONFIG: '' } })
  expect([config.getCurrentContext(), config.getUser('one')?.exec.command]).toEqual(['x', `${root}/.kube/plugin`])
})

it('skips missing and empty files in KUBECONFIG unless all are missing', async () => {
  const root = await write({ a: users(['only', {}]) })
  const [missing, present, empty] = [join(root, 'missing'), join(root, 'a', 'config'), join(root, 'empty')]
  await writeFile(empty, '---\n# nothing yet\n')
  const read = readKubeconfig({ environment: { KUBECONFIG: [missing, empty, present].join(delimiter) } })
  expect(read.users.map(({ name }) => name)).toEqual(['only'])
  expect(() => readKubeconfig({ environment: { KUBECONFIG: missing } })).toThrow(`kubeconfig ${missing} cannot be read`)
})
