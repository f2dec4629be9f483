import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { systemClock } from '../../runtime/clock.ts'
import { createEngine } from '../../webhooks/admission/engine.ts'
import { createMayAccess } from '../../webhooks/admission/permission.ts'
import { createTenantRequests } from '../../webhooks/tenant-requests.ts'
import { until } from '../until.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'
import { runKubectl, type Output } from './kubectl.ts'
import { startWebhooks } from './webhooks.ts'
import type { TestWebhooks } from './webhooks.ts'

let api: TestApiServer
let webhooks: TestWebhooks
let folder = ''

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'virtset-smuggling-'))
  api = await startApiServer()
  webhooks = await startWebhooks(api, (caches, kube) =>
    createEngine(caches, createMayAccess(createTenantRequests(kube), systemClock)),
  )
  for (const object of [vm('vm'), config('config', good), group('group', good)]) {
    const output = await kubectl(JSON.stringify(object), 'create', '-f', '-')
    if (output.code !== 0) throw new Error(output.err)
  }
})
afterAll(async () => {
  await webhooks?.stop()
  await api?.stop()
  await rm(folder, { recursive: true, force: true })
})

const kubectl = (input: string, ...rest: string[]): Promise<Output> => runKubectl(api, input, ...rest)

const read = async (kind: string, name: string) => JSON.parse((await kubectl('', 'get', kind, name, '-o', 'json')).out)

/** Sends the text unchanged: kubectl would parse it and write it again. */
async function post(path: string, text: string): Promise<Output> {
  const file = join(folder, 'body.json')
  await writeFile(file, text)
  return kubectl('', 'create', '--raw', `/apis/virtset.io/v1alpha1/${path}`, '-f', file)
}

const apiVersion = 'virtset.io/v1alpha1'
const good = { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } }
const evil = { domain: { ...good.domain, devices: { emulator: '/tmp/evil' } } }
const labels = { app: 'web' }

const vm = (name: string, spec: object = good, metadata: object = {}) => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name, ...metadata },
  spec,
})
const config = (name: string, spec: object) => ({
  apiVersion,
  kind: 'VirtualMachineConfig',
  metadata: { name },
  spec: { template: { spec } },
})
const group = (name: string, spec: object) => ({
  apiVersion,
  kind: 'VirtualMachineGroup',
  metadata: { name },
  spec: { replicas: 0, selector: { matchLabels: labels }, template: { metadata: { labels }, spec } },
})

describe('refuses a field that reaches the host', () => {
  test.each<[string, string, object, string[]]>([
    ['in a new VM', 'create', vm('new', evil), []],
    ['in a new VM by server-side apply', 'apply', vm('new', evil), ['--server-side']],
    ['in a new VM without validation', 'create', vm('new', evil), ['--validate=false']],
    ['in an update by apply', 'apply', vm('vm', evil), []],
    ['in an update by server-side apply', 'apply', vm('vm', evil), ['--server-side', '--force-conflicts']],
    ['in an update by replace', 'replace', vm('vm', evil), []],
    ['in the template of a config', 'create', config('new', evil), []],
    ['in an update of a config', 'apply', config('config', evil), []],
    ['in the template of a group', 'create', group('new', evil), []],
    ['in an update of a group', 'replace', group('group', evil), []],
    [
      'in a preset of a namespace',
      'create',
      { apiVersion, kind: 'VirtualMachinePreset', metadata: { name: 'p' }, spec: { selector: {}, ...evil } },
      [],
    ],
  ])('%s', async (_, verb, object, rest) => {
    const { code, err } = await kubectl(JSON.stringify(object), verb, '-f', '-', ...rest)
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/spec\.domain\.devices\.emulator: (?:Forbidden|Invalid value)/),
    ])
  })

  test.each<[string, string]>([
    ['json', '[{"op":"add","path":"/spec/domain/devices/emulator","value":"/tmp/evil"}]'],
    ['merge', '{"spec":{"domain":{"devices":{"emulator":"/tmp/evil"}}}}'],
  ])('in a patch of type %s', async (type, patch) => {
    const { code, err } = await kubectl('', 'patch', 'vm', 'vm', `--type=${type}`, '-p', patch)
    expect([code, err.includes("a VM's spec is immutable")]).toEqual([1, true])
  })

  test.each<[string, string]>([
    ['under the prototype', '"__proto__":{"devices":{"emulator":"/tmp/evil"}}'],
    ['under the constructor', '"constructor":{"prototype":{"devices":{"emulator":"/tmp/evil"}}}'],
    ['in the second of two keys', '"devices":{},"devices":{"emulator":"/tmp/evil"}'],
    ['in look-alike letters', '"dеvices":{"emulator":"/tmp/evil"}'],
    ['under the name of XML', '"qemu:commandline":{"args":[{"value":"-drive"}]}'],
    ['beside a number beyond all', '"vcpu":{"value":1e400},"devices":{"emulator":"/tmp/evil"}'],
  ])('%s of the domain', async (_, part) => {
    const domain = `{"type":"qemu","memory":{"unit":"MiB","value":64},"os":{"type":{"os":"hvm"}},${part}}`
    const text = `{"apiVersion":"${apiVersion}","kind":"VirtualMachine","metadata":{"name":"raw"},"spec":{"domain":${domain}}}`
    expect((await post('namespaces/default/virtualmachines', text)).code).toBe(1)
    expect((await kubectl('', 'get', 'vm', 'raw')).err).toContain('NotFound')
  })

  test('in a VM that claims to be completed', async () => {
    for (const by of ['=uuid', '=interface-mac', '=emulator']) {
      const annotations = { 'virtset.io/completed-by': JSON.stringify({ v: 1, by: [by], at: { spec: 0 } }) }
      const { err } = await kubectl(JSON.stringify(vm('new', evil, { annotations })), 'create', '-f', '-')
      expect(err).toContain('spec.domain.devices.emulator: Forbidden')
    }
  })
})

describe('has no effect:', () => {
  test('a spec in a write of the status of a VM', async () => {
    const stored = await read('vm', 'vm')
    const sent = { ...stored, spec: evil, metadata: { ...stored.metadata, labels: { a: 'b' } } }
    const { code } = await kubectl(JSON.stringify(sent), 'replace', '--subresource=status', '-f', '-')
    const after = await read('vm', 'vm')
    expect([code, after.spec, after.metadata.labels]).toEqual([0, stored.spec, stored.metadata.labels])
  })

  test.each(['config', 'group'])('a template in a write of the status of a %s', async (name) => {
    const kind = name === 'config' ? 'vmc' : 'vmg'
    const stored = await read(kind, name)
    const sent = { ...stored, spec: (name === 'config' ? config : group)(name, evil).spec }
    const { code } = await kubectl(JSON.stringify(sent), 'replace', '--subresource=status', '-f', '-')
    expect([code, (await read(kind, name)).spec]).toEqual([0, stored.spec])
  })

  test('a template in a write of the scale of a group', async () => {
    const stored = await read('vmg', 'group')
    const scale = {
      apiVersion: 'autoscaling/v1',
      kind: 'Scale',
      metadata: { name: 'group', namespace: 'default' },
      spec: { replicas: 2, template: { spec: evil } },
    }
    const path = '/apis/virtset.io/v1alpha1/namespaces/default/virtualmachinegroups/group/scale'
    const file = join(folder, 'scale.json')
    await writeFile(file, JSON.stringify(scale))
    await kubectl('', 'replace', '--raw', path, '-f', file)
    expect((await read('vmg', 'group')).spec.template).toEqual(stored.spec.template)
  })

  test('the first of two equal keys', async () => {
    const domain = `{"devices":{"emulator":"/tmp/evil"},"devices":{},"type":"qemu","memory":{"unit":"MiB","value":64},"os":{"type":{"os":"hvm"}}}`
    const text = `{"apiVersion":"${apiVersion}","kind":"VirtualMachine","metadata":{"name":"twice"},"spec":{"domain":${domain}}}`
    await post('namespaces/default/virtualmachines', text)
    const { out } = await kubectl('', 'get', 'vm', 'twice', '-o', 'json', '--ignore-not-found')
    expect(out).not.toContain('/tmp/evil')
  })

  test('a status with which a broken preset claims to be accepted', async () => {
    await kubectl('', 'delete', 'validatingwebhookconfiguration,mutatingwebhookconfiguration', 'virtset', '--wait=true')
    const spec = { selector: {}, ...evil }
    const broken = { apiVersion, kind: 'VirtualMachinePreset', metadata: { name: 'broken' }, spec }
    await kubectl(JSON.stringify(broken), 'create', '-f', '-')
    const time = { lastTransitionTime: '2030-01-01T00:00:00Z', message: '' }
    const status = { conditions: [{ type: 'Accepted', status: 'True', reason: 'Accepted', ...time }] }
    const stored = await read('vmp', 'broken')
    await kubectl(JSON.stringify({ ...stored, status }), 'replace', '--subresource=status', '-f', '-')
    expect((await read('vmp', 'broken')).status.conditions[0].status).toBe('True')
    await until(() => webhooks.caches.quarantined.has('default/broken'))
    const presets = webhooks.caches.candidates.select({}, webhooks.caches.namespace('default'))
    expect(presets.map(({ id }) => id)).toEqual([])
  })
})
