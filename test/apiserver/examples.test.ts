import { spawn } from 'node:child_process'
import { chmodSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { apiVersion } from '../../api/object.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { namespaces } from '../../runtime/resource.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { examples, presetFiles, presetsIn } from '../cli/examples.ts'
import { files } from '../cli/files.ts'
import { resultOfCluster, resultOfOutput } from '../cli/persisted.ts'
import { noSessions, runVm } from '../cli/world.ts'
import { until } from '../until.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { startWebhooks, type TestWebhooks } from './webhooks.ts'

/** The examples of the manifests, and `kubectl vm` as a plugin of a real kubectl, on a real API server. */
let api: TestApiServer
let webhooks: TestWebhooks
let kube: KubeClient
let folder: string
const uids = new Map<string, string>()

beforeAll(async () => {
  api = await startApiServer()
  webhooks = await startWebhooks(api, (caches) => {
    const engine = createEngine(caches, () => Promise.resolve(true))
    return {
      ...engine,
      complete: (vm, review, permissions) => {
        uids.set(`${review.namespace}/${review.name || vm.metadata.generateName}`, review.uid)
        return engine.complete(vm, review, permissions)
      },
    }
  })
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'test' })
  folder = mkdtempSync(join(tmpdir(), 'virtset-plugin-'))
  const write = (name: string, text: string) => {
    writeFileSync(join(folder, name), text)
    chmodSync(join(folder, name), 0o755)
  }
  write('kubectl-vm', `#!/bin/sh\nexec ${process.execPath} ${resolve('cli/main.ts')} "$@"\n`)
  write('kubectl_complete-vm', (await runVm(['completion', 'kubectl'])).out)
})
afterAll(async () => {
  await kube?.close()
  await webhooks?.stop()
  await api?.stop()
  if (folder !== undefined) rmSync(folder, { recursive: true })
})

/** A namespace with the presets of these files, which the webhooks have received. */
async function createNamespace(name: string, presets: readonly string[], labels: object = {}): Promise<void> {
  await kube.create(namespaces, { apiVersion: 'v1', kind: 'Namespace', metadata: { name, labels: { ...labels } } })
  const before = webhooks.caches.candidates.size()
  const objects = presetsIn(presets)
  for (const preset of objects) {
    const resource =
      preset.kind === 'VirtualMachinePreset'
        ? `namespaces/${name}/virtualmachinepresets`
        : 'clustervirtualmachinepresets'
    await kube.request('POST', `/apis/virtset.io/v1alpha1/${resource}`, preset)
  }
  await until(
    () =>
      webhooks.caches.candidates.size() === before + objects.length &&
      webhooks.caches.namespace(name).labels['kubernetes.io/metadata.name'],
  )
}

/** A VM as the API server stores it, and as `kubectl vm complete` prints it. */
async function bothSides(namespace: string, vm: object, name: string, words: readonly string[]) {
  const path = `/apis/virtset.io/v1alpha1/namespaces/${namespace}/virtualmachines`
  const online = await resultOfCluster(kube.request('POST', path, vm))
  const uid = uids.get(`${namespace}/${name}`) ?? ''
  const result = await runVm(['complete', ...words, '-n', namespace, '--uid', uid, '-o', 'json', '-q'])
  return { online, offline: resultOfOutput(result) }
}

const presetFlags = (files: readonly string[]): string[] => files.flatMap((file) => ['--presets', file])

test.each(examples.map((example, index) => [example.name, example, `folder-${index}`] as const))(
  '%s is completed offline as the API server stores it, with the presets of its folder',
  async (_, { file, vm, called, presets }, namespace) => {
    await createNamespace(namespace, presets)
    // Without presets, --presets with the file itself excludes those of the cluster.
    const { online, offline } = await bothSides(namespace, vm, called, [
      file,
      ...presetFlags(presets.length === 0 ? [file] : presets),
    ])
    expect(offline).toEqual(online)
    expect('refusal' in offline).toBe(file.includes('/refused/'))
  },
)

describe('the examples of presets', () => {
  const labels = { 'example.org/bridge': 'allowed' }
  const presets = presetFiles('presets')
  beforeAll(() => createNamespace('site', presets, labels))

  test.each([{ network: 'bridge' }, { setup: 'cloud-init' }, { size: 'small' }, { size: 'large', network: 'bridge' }])(
    'with a VM labelled %j',
    async (own) => {
      const testvm = examples.find(({ name }) => name === 'testvm.yaml')?.vm
      const name = Object.values(own).join('-')
      const vm = { ...testvm, metadata: { name, labels: own } }
      const at = files({ 'vm.json': JSON.stringify(vm) })
      const words = [at('vm.json'), ...presetFlags(presets), '--namespace-labels', 'example.org/bridge=allowed']
      const { online, offline } = await bothSides('site', vm, name, words)
      expect(offline).toEqual(online)
      expect(offline).not.toHaveProperty('refusal')
    },
  )
})

/** As installed by a user: kubectl finds `kubectl-vm` in the PATH. */
describe('as a plugin', () => {
  /** Not with `spawnSync`, because the webhooks run in this process. */
  const kubectl = async (...words: string[]) => {
    const env = { PATH: `${folder}:/usr/bin:/bin`, HOME: folder, KUBECONFIG: api.kubeconfig }
    const child = spawn(api.kubectl, words, { env, stdio: ['ignore', 'pipe', 'pipe'] })
    const result = { out: '', err: '' }
    child.stdout.on('data', (chunk: Buffer) => (result.out += chunk.toString()))
    child.stderr.on('data', (chunk: Buffer) => (result.err += chunk.toString()))
    const code = await new Promise<number | null>((done) => child.once('close', done))
    return { code, ...result }
  }
  const file = resolve('manifests/examples/testvm.yaml')
  const online = (...words: string[]) =>
    runVm(words, {
      columns: 80,
      cluster: async () => {
        const access = await kubeconfigAccess({ file: api.kubeconfig })
        return { ...noSessions, kube: createKubeClient({ access, userAgent: 'kubectl-vm' }), server: access.server }
      },
    })
  beforeAll(() => createNamespace('plugin', presetFiles('')))

  test('kubectl finds it', async () => {
    expect((await kubectl('plugin', 'list')).out).toContain(join(folder, 'kubectl-vm'))
  })

  test.each([
    ['complete', file, '-n', 'plugin'],
    ['complete', file, '-n', 'plugin', '-o', 'xml'],
    ['explain', file, 'spec.domain.features', '-n', 'plugin'],
    ['diff', file, '-n', 'plugin'],
    ['complete', resolve('manifests/examples/refused/three-mistakes.yaml'), '-n', 'plugin'],
    ['complte', file],
  ])('kubectl vm %s has the same output and exit code as kubectl-vm', async (...words) => {
    expect(await kubectl('vm', ...words)).toEqual(await online(...words))
  })

  test('explains a VM that kubectl has applied', async () => {
    expect((await kubectl('apply', '-f', file, '-n', 'plugin')).code).toBe(0)
    const { code, out } = await kubectl('vm', 'explain', 'testvm', 'spec.domain.features.acpi', '-n', 'plugin')
    expect(code).toBe(0)
    expect(out).toMatch(/\n {2}spec\.domain\.features\.acpi +\{\} +preset plugin\/power-button@[0-9a-f]{16}\n$/)
  })

  test('a condition can depend on the user who creates a VM, and explain reports it for a stored VM', async () => {
    const preset = {
      apiVersion,
      kind: 'VirtualMachinePreset',
      metadata: { name: 'for-me' },
      spec: {
        selector: {},
        matchConditions: [
          { name: 'me', expression: 'request.userInfo.username.size() > 0 && request.operation == "CREATE"' },
        ],
        domain: { title: 'made by a user' },
      },
    }
    const at = files({
      'preset.json': JSON.stringify(preset),
      'vm.yaml': `${readFileSync(file, 'utf8').replace('testvm', 'mine')}`,
    })
    expect((await kubectl('apply', '-f', at('preset.json'), '-n', 'plugin')).code).toBe(0)
    expect((await kubectl('apply', '-f', at('vm.yaml'), '-n', 'plugin')).code).toBe(0)
    for (const vm of [at('vm.yaml'), 'mine']) {
      const { presets, fields } = JSON.parse(
        (await kubectl('vm', 'explain', vm, 'spec.domain.title', '-n', 'plugin', '-o', 'json')).out,
      )
      const ofPreset = presets.find((one: { preset: string }) => one.preset === 'plugin/for-me')
      expect([ofPreset.outcome, fields[0].preset]).toEqual(['applied', 'plugin/for-me'])
    }
  })

  test('provides completion for kubectl', async () => {
    const { code, out } = await kubectl('__complete', 'vm', 'expl')
    expect([code, out.split('\n')[0]]).toEqual([0, 'explain'])
    expect((await kubectl('__complete', 'vm', 'complete', '-o', '')).out).toMatch(/^yaml\njson\nxml\n/)
    expect((await kubectl('__complete', 'vm', 'console', '-n', 'plugin', 'mi')).out).toMatch(/^mine\n/)
  })
})
