import { afterEach, beforeEach, expect, test } from 'vitest'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { noSessions, runVm } from '../test/cli/world.ts'
import { type FakeApiServer, startFakeApiServer } from '../test/fake-apiserver.ts'

const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
let server: FakeApiServer
let kube: KubeClient

beforeEach(async () => {
  server = await startFakeApiServer()
  kube = createKubeClient({ access: server.access, userAgent: 'kubectl-vm' })
  const disks = [
    { device: 'disk', source: { volume: 'root' }, target: { dev: 'vda' } },
    { device: 'cdrom', type: 'volume', source: { volume: 'seed' }, target: { dev: 'sda' } },
  ]
  server.put(vms, {
    metadata: { namespace: 'default', name: 'web', uid: 'first' },
    spec: { domain: { devices: { disks } } },
  })
  server.put(vms, { metadata: { namespace: 'default', name: 'bare' }, spec: { domain: {} } })
})
afterEach(async () => {
  await kube.close()
  await server.close()
})

const vm = (...words: readonly string[]) =>
  runVm(words, { cluster: async () => ({ ...noSessions, kube, server: server.url }), now: () => performance.now() })
const written = () => server.requests.filter(({ method }) => method !== 'GET').map(({ body }) => body)
const patch = (source: object) => [
  { op: 'test', path: '/metadata/uid', value: 'first' },
  { op: 'test', path: '/spec/domain/devices/disks/1/target/dev', value: 'sda' },
  { op: 'add', path: '/spec/domain/devices/disks/1/source', value: source },
]

test('inserts a volume', async () => {
  expect(await vm('media', 'web', 'sda', '--insert', 'tools')).toMatchObject({
    code: 0,
    out: 'virtualmachine.virtset.io/web: tools inserted into sda\n',
  })
  expect(written()).toEqual([patch({ volume: 'tools' })])
})

test('ejects', async () => {
  expect(await vm('media', 'web', 'sda', '--eject', '--dry-run')).toMatchObject({
    code: 0,
    out: 'virtualmachine.virtset.io/web: sda ejected (dry run)\n',
  })
  expect(written()).toEqual([patch({})])
})

test('changes no other VM of the name, which was created meanwhile', async () => {
  const disks = [{ device: 'disk' }, { device: 'disk', source: { volume: 'data' }, target: { dev: 'sda' } }]
  const second = {
    metadata: { namespace: 'default', name: 'web', uid: 'second' },
    spec: { domain: { devices: { disks } } },
  }
  server.fault = ({ method }) => {
    if (method === 'PATCH') server.put(vms, second)
    return undefined
  }
  const { code, out } = await vm('media', 'web', 'sda', '--eject')
  expect([code, out]).not.toEqual([0, expect.anything()])
  expect(server.find(vms, 'default', 'web')).toMatchObject(second)
})

test('fails if a preset keeps the medium', async () => {
  // The webhooks restore it.
  const restoring: KubeClient = { ...kube, patch: (of, at) => kube.get(of, at) }
  const cluster = async () => ({ ...noSessions, kube: restoring, server: server.url })
  expect(await runVm(['media', 'web', 'sda', '--eject'], { cluster, now: () => performance.now() })).toMatchObject({
    code: 1,
    out: '',
    err: 'error: sda of web still has seed: a preset of strength Enforce sets it\n',
  })
})

test.each<[string, readonly string[], string]>([
  ['without a change', ['web', 'sda'], 'one of --insert VOLUME and --eject is needed'],
  ['with two changes', ['web', 'sda', '--eject', '--insert', 'x'], 'one of --insert VOLUME and --eject is needed'],
  ['of no VM', ['none', 'sda', '--eject'], 'no VM none in default'],
  ['of a disk', ['web', 'vda', '--eject'], 'web has no drive vda, but sda'],
  ['of a VM without a drive', ['bare', 'sda', '--eject'], 'bare has no drive: a disk with device: cdrom'],
])('is an error %s', async (_, words, message) => {
  expect(await vm('media', ...words)).toMatchObject({ code: 2, err: expect.stringContaining(message) })
  expect(written()).toEqual([])
})
