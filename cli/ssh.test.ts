import { spawnSync } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { sessionCluster } from '../test/cli/sessions.ts'
import { runVm } from '../test/cli/world.ts'

/** Runs a command with a fake `ssh`; returns its program, words and exit code. */
async function run(words: readonly string[], exit = 0, server = 'https://cluster') {
  const cluster = { ...sessionCluster().cluster, server }
  const spawned: string[][] = []
  const { code, err } = await runVm(words, {
    cluster: async () => cluster,
    self: ['/opt/node', "/home/jo's/100%/main.ts"],
    spawn: async (program, given) => {
      spawned.push([program, ...given])
      return exit
    },
  })
  return { spawned, code, err }
}

const proxy = (rest: string) =>
  `ProxyCommand='/opt/node' '/home/jo'\\''s/100%%/main.ts' 'port-forward' '--stdio' '--namespace' ${rest}`

/** After the user's own options, which win over later ones. */
const unshared = ['-o', 'ControlPath=none']

test('ssh connects through port-forward, and knows the VM by name, namespace and cluster', async () => {
  expect(await run(['ssh', 'root@web', '--', 'ls', '-l'])).toMatchObject({
    spawned: [
      [
        'ssh',
        '-o',
        proxy("'team' 'web' '22'"),
        '-o',
        'HostKeyAlias=web.team.cluster',
        ...unshared,
        '--',
        'root@kubectl-vm',
        'ls',
        '-l',
      ],
    ],
    code: 0,
  })
})

test('flags reach ssh and the connection; its exit code is that of the command', async () => {
  const flags = ['-n', 'other', '--context', 'it', '-p', '2222', '-i', 'key', '-o', 'LogLevel=ERROR']
  const expected = [
    'ssh',
    '-o',
    proxy("'other' '--context' 'it' 'web' '2222'"),
    '-o',
    'HostKeyAlias=web.other.cluster',
    '-o',
    'LogLevel=ERROR',
    ...unshared,
    '-i',
    'key',
    '--',
    'kubectl-vm',
  ]
  expect(await run(['ssh', 'web', ...flags], 255)).toMatchObject({ spawned: [expected], code: 255 })
})

test.each([
  ['https://198.51.100.1:6443', 'web.team.198.51.100.1-6443'],
  ['https://api.example.com', 'web.team.api.example.com'],
  ['https://[2001:db8::1]:6443', 'web.team.-2001-db8-1-6443'],
  ['https://example.com/', 'web.team.example.com'],
  ['https://example.com/k8s/clusters/c-aaaa', 'web.team.example.com_k8s_clusters_c-aaaa'],
  ['https://example.com/k8s/clusters/c-bbbb/', 'web.team.example.com_k8s_clusters_c-bbbb'],
  ['https://example.com/A_b,*%20', 'web.team.example.com_+41+5fb+2c+2a+2520'],
])('the key of a VM in the cluster at %s is stored as that of %s', async (server, alias) => {
  const { spawned } = await run(['ssh', 'web'], 0, server)
  expect(spawned[0]).toContain(`HostKeyAlias=${alias}`)
})

test('scp finds the VM in its paths', async () => {
  const options = ['-o', proxy("'team' 'web' '22'"), '-o', 'HostKeyAlias=web.team.cluster', ...unshared]
  expect((await run(['scp', '-r', './a:b', '/tmp/x', 'web:', 'root@web:/tmp/a:b@c'])).spawned).toEqual([
    ['scp', ...options, '-r', '--', './a:b', '/tmp/x', 'kubectl-vm:', 'root@kubectl-vm:/tmp/a:b@c'],
  ])
})

test('the configuration of a host does not apply to a VM of its name; that of all hosts does', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'ssh-'))
  try {
    const file = join(directory, 'config')
    const trusted = (pattern: string) => `Host ${pattern}\n  ForwardAgent yes\n  RemoteForward 9000 127.0.0.1:9000\n`
    const own = 'Host kubectl-vm\n  ServerAliveInterval 7\nHost *\n  User me\n'
    await writeFile(file, ['build', 'build*', '*build', '*build*'].map(trusted).join('') + own)
    const { spawned } = await run(['ssh', 'build'])
    const { stdout } = spawnSync('ssh', ['-F', file, '-G', ...(spawned[0]?.slice(1) ?? [])], { encoding: 'utf8' })
    const lines = stdout.split('\n')
    const applied = lines.filter((line) => /^(user|forwardagent|remoteforward|serveraliveinterval) /.test(line))
    expect(applied.toSorted()).toEqual(['forwardagent no', 'serveraliveinterval 7', 'user me'])
  } finally {
    await rm(directory, { recursive: true })
  }
})

test.each([
  [['ssh', 'root@-oProxyCommand=x'], '"-oProxyCommand=x" is not the name of a VM'],
  [['ssh', "root@web'$(id)'"], 'is not the name of a VM'],
  [['ssh', 'web', '-p', '0'], '"0" is not a port from 1 to 65535'],
  [['scp', 'a', 'b'], 'one of the paths must be on a VM'],
  [['scp', 'one:/a', 'two:/b'], 'the paths are on two VMs, one and two'],
])('%j is refused', async (words, message) => {
  expect(await run(words)).toEqual({ spawned: [], code: 2, err: expect.stringContaining(message) })
})
