import { existsSync } from 'node:fs'
import { describe, expect, onTestFinished, test } from 'vitest'
import about from '../package.json' with { type: 'json' }
import { createKubeClient } from '../runtime/kube.ts'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { commands } from './commands.ts'
import { painter } from './paint.ts'
import { progress } from './output.ts'
import type { Cluster, World } from './world.ts'

describe('the command line', () => {
  test.each([
    [['complet', 'x'], 2, "error: unknown command 'complet'\n(Did you mean complete?)\n"],
    [['complete', 'x', '--preset', 'y'], 2, "error: unknown option '--preset'\n(Did you mean --presets?)\n"],
    [['complete'], 2, "error: missing required argument 'file'\n"],
    [
      ['complete', 'x', '-o', 'text'],
      2,
      "error: option '-o, --output <format>' argument 'text' is invalid. Allowed choices are yaml, json, xml.\n",
    ],
    [
      ['impact', '--presets', 'x', '--limit', 'y'],
      2,
      "error: option '--limit <n>' argument 'y' is invalid. must be a whole number.\n",
    ],
    [['import'], 2, 'error: import requires files, or --from URI or --socket PATH\n'],
  ])('%j is an error that is named', async (words, code, err) => {
    const result = await runVm(words)
    expect([result.code, result.out]).toEqual([code, ''])
    expect(result.err.startsWith(err)).toBe(true)
  })

  test.each(commands.map(({ name }) => name))('%s --help has an example that works', async (name) => {
    const help = await runVm([name, '--help'])
    expect(help.code).toBe(0)
    const [, line = '', code = '0'] =
      /\nExample:\n {2}kubectl vm (.*?)(?: {4}# exits with (\d) if .*)?\n/.exec(help.out) ?? []
    const at = files(exampleFiles)
    const words = (line.split(' > ')[0] ?? '').split(' ')
    const serving = Promise.withResolvers<void>()
    const running = runVm(
      words.map((word) => (existsSync(at(word)) || ['report.xml', 'web.png'].includes(word) ? at(word) : word)),
      {
        ...(await exampleWorld(serving.resolve)),
        // A user ends what serves; a command that ends by itself can be interrupted too.
        ...(servers.includes(name) ? {} : { interrupted: () => new Promise(() => {}) }),
      },
    )
    const result = await Promise.race([running, serving.promise])
    const ended = [Number(code), expect.not.stringContaining('error')]
    const expected = servers.includes(name) ? 'serves' : ended
    expect([words[0], result === undefined ? 'serves' : [result.code, result.err]]).toEqual([name, expected])
  })
})

/** The commands that listen until they are ended, or that wait for the screen of a VM, which has none here. */
const servers = ['vnc', 'port-forward', 'send-key', 'ui']

/** The files of the help's examples. */
const exampleFiles = {
  'vm.yaml': vm('web', '', '{size: small}'),
  'new.yaml': preset('new', '{selector: {}, domain: {title: x}}'),
  'presets/small.yaml': preset('small', '{selector: {matchLabels: {size: small}}, domain: {title: hello}}'),
  'presets/small.vmtest.yaml': `presets: small.yaml
vm: ../vm.yaml
expect: {completed: {spec: {domain: {title: hello}}}}
`,
}

/** The VM ends as soon as a console is open. */
const endedSessions = (serves: () => void): Pick<Cluster, 'attach' | 'stream'> => ({
  attach: async (path) => ({
    send: () => undefined,
    close: () => {},
    closed: path.endsWith('attach/vnc')
      ? new Promise(() => serves())
      : Promise.resolve({ code: 1000, reason: 'the VM has ended' }),
  }),
  stream: async (_, receiver) => {
    await receiver.receive(picture)
    return { ended: Promise.resolve(true) }
  },
})

/** Of a config with a claim. */
const exampleSpec = {
  claimTemplates: [{ name: 'root', spec: { resources: { requests: { storage: '1Gi' } } } }],
  template: { spec: { domain: {} } },
}

/** An empty PNG. */
const picture = Buffer.from('89504e470d0a1a0a0000000049454e44ae426082', 'hex')

/**
 * A cluster with the VM `web` and its config, and a snapshot of the config `db`; a libvirt daemon with a domain.
 * @param serves called when a command listens, or has a screen
 */
async function exampleWorld(serves: () => void): Promise<Partial<World>> {
  const fake = await startFakeApiServer()
  onTestFinished(() => fake.close())
  const api = '/apis/virtset.io/v1alpha1'
  const metadata = { name: 'web', namespace: 'default' }
  fake.put('/api/v1/namespaces', { kind: 'Namespace', metadata: { name: 'default' } })
  const at = files({ 'vm.yaml': exampleFiles['vm.yaml'] })
  const stored = JSON.parse((await runVm(['complete', at('vm.yaml'), '--no-validate', '-o', 'json'])).out)
  fake.put(`${api}/virtualmachines`, {
    ...stored,
    metadata: { ...stored.metadata, uid: 'u' },
    status: { phase: 'Running' },
  })
  const drive = { type: 'volume', device: 'cdrom', target: { dev: 'sda' } }
  fake.put(`${api}/virtualmachines`, {
    metadata: { ...metadata, name: 'installer' },
    spec: {
      domain: { devices: { disks: [drive] } },
      attachedVolumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'data' } }],
    },
  })
  fake.put(`${api}/virtualmachineconfigs`, {
    metadata: { ...metadata, name: 'db' },
    spec: exampleSpec,
    // The controller has seen what `restore` changes, and creates the claim then.
    status: { observedGeneration: 2 },
  })
  fake.put(`${api}/virtualmachinesnapshots`, {
    metadata: { ...metadata, name: 'nightly', uid: 's-1' },
    spec: { source: { kind: 'VirtualMachineConfig', name: 'db' } },
    status: { phase: 'Ready', volumes: [{ name: 'root', claimName: 'root-db', volumeSnapshotName: 'nightly-root' }] },
  })
  fake.put('/apis/snapshot.storage.k8s.io/v1/volumesnapshots', {
    metadata: { ...metadata, name: 'nightly-root', ownerReferences: [{ uid: 's-1' }] },
    spec: { source: { persistentVolumeClaimName: 'root-db' } },
    status: { readyToUse: true },
  })
  const config = (status: object) => fake.put(`${api}/virtualmachineconfigs`, { metadata, spec: {}, status })
  config({ phase: 'Running', instance: { name: 'web', uid: 'u' } })
  fake.fault = ({ method, path }) => {
    if (method === 'PATCH' && path.endsWith('/virtualmachineconfigs/db')) {
      const dataSource = { kind: 'VolumeSnapshot', name: 'nightly-root' }
      fake.put('/api/v1/persistentvolumeclaims', { metadata: { ...metadata, name: 'root-db' }, spec: { dataSource } })
    }
    if (method !== 'POST' || !path.includes('subresources')) return undefined
    if (path.endsWith('/start')) return { status: 200, body: { kind: 'VirtualMachine', metadata: { uid: 'u' } } }
    config(path.endsWith('/stop') ? { phase: 'Stopped' } : { phase: 'Running', instance: { name: 'web', uid: 'v' } })
    if (path.endsWith('/stop')) fake.remove(`${api}/virtualmachines`, 'default', 'web')
    if (path.endsWith('/restart')) {
      fake.put(`${api}/virtualmachines`, { metadata: { ...metadata, name: 'web', uid: 'v' }, spec: {} })
    }
    return { status: 200, body: { kind: 'Status', status: 'Success', details: { uid: 'u' } } }
  }
  const libvirtd = fakeLibvirtd()
  return {
    cluster: async () => ({
      ...endedSessions(serves),
      access: fake.access,
      kube: createKubeClient({ access: fake.access, userAgent: 'test' }),
      server: fake.url,
    }),
    terminal: async () => ({ isInteractive: false, setRaw: () => {}, read: () => () => {}, write: () => undefined }),
    dial: () => libvirtd.dial(),
    spawn: async () => 0,
    page: async () => new Map(),
    interrupted: async () => serves(),
    listen: () => {
      serves()
      return new Promise(() => {})
    },
  }
}

describe('completion in a shell', () => {
  test.each([
    [['comp'], ['complete', 'completion']],
    [
      ['complete', '--name'],
      ['--namespace-labels', '--namespace'],
    ],
    [
      ['complete', '-o', ''],
      ['yaml', 'json', 'xml'],
    ],
    [['complete', 'x', '--output', 'x'], ['xml']],
    [
      ['completion', ''],
      ['bash', 'zsh', 'fish', 'kubectl'],
    ],
    [['complete', ''], []],
    [['nothing', '--'], []],
  ])('%j', async (words, expected) => {
    const { out } = await runVm(['__complete', '--', ...words])
    expect(out.split('\n').filter((word) => word !== '')).toEqual(expected)
  })

  test.each(['bash', 'zsh', 'fish', 'kubectl'])('the script for %s asks kubectl-vm', async (shell) => {
    expect((await runVm(['completion', shell])).out).toContain('kubectl-vm __complete')
    const { out } = await runVm(['completion', shell], { plugin: 'preset' })
    expect([out.includes('kubectl-preset __complete'), /\bvm\b|_vm/.test(out)]).toEqual([true, false])
  })
})

describe('as kubectl preset', () => {
  const run = (...words: readonly string[]) => runVm(words, { plugin: 'preset' })

  test('has the commands that need no VMs', async () => {
    const { out } = await run('__complete', '')
    const words = ['complete', 'explain', 'test', 'impact', 'lint', 'completion', 'help']
    expect(out.split('\n').slice(0, -1)).toEqual(words)
    expect((await run('lint', '--help')).out).toContain('Example:\n  kubectl preset lint ')
    expect(await run('start', 'web')).toMatchObject({ code: 2, err: expect.stringContaining('(kubectl preset --help') })
  })

  test('does the same as kubectl vm', async () => {
    const at = files({ 'vm.yaml': vm('web'), 'p.yaml': preset('small', '{selector: {}, domain: {title: hello}}') })
    const words = ['complete', at('vm.yaml'), '--presets', at('p.yaml')]
    expect(await run(...words)).toEqual(await runVm(words))
  })
})

describe('diff', () => {
  const given = {
    'vm.yaml': vm('web', '', '{size: small}'),
    'p.yaml': preset('small', '{selector: {matchLabels: {size: small}}, domain: {title: hello}}'),
  }

  test('shows what completion adds, with exit code 1', async () => {
    const at = files(given)
    const { code, out } = await runVm(['diff', at('vm.yaml'), '--presets', at('p.yaml')])
    expect(code).toBe(1)
    expect(out).toContain('\n+    title: hello\n')
    expect(out).not.toContain('completed-by')
    expect(out.split('\n').some((line) => /^-[^-]/.test(line))).toBe(false)
  })

  test('of a completed VM is empty', async () => {
    const at = files(given)
    const { out } = await runVm(['complete', at('vm.yaml'), '--presets', at('p.yaml')])
    const whole = files({ 'vm.yaml': out })
    expect(await runVm(['diff', whole('vm.yaml'), '--presets', at('p.yaml')])).toEqual({ code: 0, out: '', err: '' })
  })

  test.each([
    [{}, true, ['--no-color'], false],
    [{}, true, [], true],
    [{ NO_COLOR: '1' }, true, [], false],
    [{ TERM: 'dumb' }, true, [], false],
    [{}, false, [], false],
  ])('is colored only if wanted: %j, terminal %s, %j', async (environment, isOutTerminal, flags, isColored) => {
    const at = files(given)
    const { out } = await runVm(['diff', at('vm.yaml'), '--presets', at('p.yaml'), ...flags], {
      environment,
      isOutTerminal,
    })
    expect(out.includes('\u001B[32m')).toBe(isColored)
  })
})

test('progress shows after two seconds, on a terminal', () => {
  let time = 0
  const result: string[] = []
  const show = (isErrTerminal: boolean) =>
    progress({ err: (text) => result.push(text), escape: '\u001B', isErrTerminal, now: () => time })
  const { step, end } = show(true)
  step('a')
  time = 2000
  step('b')
  time = 2050
  step('c')
  end()
  const silent = show(false)
  time = 9000
  silent.step('d')
  silent.end()
  expect(result).toEqual(['\u001B[G\u001B[K2 done, b', '\u001B[G\u001B[K'])
})

test('no colors without a terminal', () => {
  expect(painter({ environment: {}, isOutTerminal: false, escape: '\u001B' })('red', 'x')).toBe('x')
})

test('prints its version', async () => {
  expect(await runVm(['--version'])).toEqual({ code: 0, out: `v${about.version}\n`, err: '' })
})
