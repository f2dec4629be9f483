import { afterEach, beforeEach, expect, test } from 'vitest'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { noSessions, runVm } from '../test/cli/world.ts'
import { type FakeApiServer, startFakeApiServer } from '../test/fake-apiserver.ts'

const vms = '/apis/virtset.io/v1alpha1/virtualmachines'
let server: FakeApiServer
let kube: KubeClient

const item = (name: string, more: object = {}) => ({ name, persistentVolumeClaim: { claimName: name }, ...more })

beforeEach(async () => {
  server = await startFakeApiServer()
  kube = createKubeClient({ access: server.access, userAgent: 'kubectl-vm' })
  const metadata = (name: string) => ({ namespace: 'default', name })
  server.put(vms, { metadata: metadata('web'), spec: { domain: {}, attachedVolumes: [item('a'), item('b')] } })
  server.put(vms, { metadata: metadata('bare'), spec: { domain: {} } })
  server.put('/api/v1/persistentvolumeclaims', { metadata: metadata('c') })
})
afterEach(async () => {
  await kube.close()
  await server.close()
})

const vm = (...words: readonly string[]) =>
  runVm(words, { cluster: async () => ({ ...noSessions, kube, server: server.url }), now: () => performance.now() })
const attached = (name: string) =>
  (server.find(vms, 'default', name)?.['spec'] as { readonly attachedVolumes?: unknown } | undefined)?.attachedVolumes

test.each<[string, readonly string[], unknown, string]>([
  ['to a VM without one', ['bare', 'c'], [item('c')], 'the claim c is to be attached as a disk'],
  [
    'with options',
    ['bare', 'c.d', '--as', 'sdb', '--bus', 'scsi', '--read-only', '--serial', 'S'],
    [
      {
        name: 'c-d',
        persistentVolumeClaim: { claimName: 'c.d', readOnly: true },
        target: { dev: 'sdb', bus: 'scsi' },
        serial: 'S',
      },
    ],
    'the claim c.d is to be attached as sdb',
  ],
  ['to a VM with others', ['web', 'c'], [item('a'), item('b'), item('c')], 'the claim c is to be attached as a disk'],
])('attaches a claim %s', async (_, words, expected, text) => {
  expect(await vm('attach', ...words)).toMatchObject({
    code: 0,
    out: `virtualmachine.virtset.io/${words[0]}: ${text}\n`,
  })
  expect(attached(words[0] ?? '')).toEqual(expected)
})

test('warns of an unknown claim, unless the user may not read claims', async () => {
  expect((await vm('attach', 'bare', 'c')).err).toBe('')
  expect((await vm('attach', 'bare', 'd')).err).toBe(
    'Warning: there is no claim d in default yet; the VM waits for it\n',
  )
  server.fault = ({ path }) =>
    path.includes('claims') ? { status: 403, body: { code: 403, reason: 'Forbidden' } } : undefined
  expect(await vm('attach', 'bare', 'e')).toMatchObject({ code: 0, err: '' })
})

test('detaches a claim, also when the VM was changed meanwhile', async () => {
  let conflicts = 2
  server.fault = ({ method }) =>
    method === 'PATCH' && conflicts-- > 0
      ? { status: 409, body: { code: 409, reason: 'Conflict', message: 'the object has been modified' } }
      : undefined
  expect(await vm('detach', 'web', 'a')).toMatchObject({
    code: 0,
    out: 'virtualmachine.virtset.io/web: the claim a is to be detached\n',
  })
  expect(attached('web')).toEqual([item('b')])
})

test.each<[string, readonly string[], string]>([
  ['of no VM', ['detach', 'none', 'a'], 'no VM none in default'],
  ['of another claim', ['detach', 'web', 'c'], 'web has no attached claim c, but a, b'],
  ['of a VM without one', ['detach', 'bare', 'c'], 'bare has no attached volumes'],
])('is an error %s', async (_, words, message) => {
  expect(await vm(...words)).toMatchObject({ code: 2, err: expect.stringContaining(message) })
})
