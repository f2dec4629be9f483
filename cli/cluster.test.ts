import { onTestFinished, describe, expect, test } from 'vitest'
import { parse } from 'yaml'
import { capabilitySetName } from '../api/node-capability-set.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { files, preset, vm } from '../test/cli/files.ts'
import { noSessions, runVm } from '../test/cli/world.ts'
import { nodeProfile, olderCapabilities } from '../test/node-profile.ts'
import { startFakeApiServer, type Fault } from '../test/fake-apiserver.ts'

const presets = '/apis/virtset.io/v1alpha1/virtualmachinepresets'

async function clusterWith(...manifests: readonly string[]) {
  const fake = await startFakeApiServer()
  onTestFinished(() => fake.close())
  fake.put('/api/v1/namespaces', { kind: 'Namespace', metadata: { name: 'default', labels: { team: 'a' } } })
  for (const text of manifests) {
    const object = parse(text)
    fake.put(presets, { ...object, metadata: { ...object.metadata, namespace: 'default' } })
  }
  const run = (words: readonly string[]) =>
    runVm(words, {
      cluster: async () => ({
        ...noSessions,
        kube: createKubeClient({ access: fake.access, userAgent: 'test' }),
        server: fake.url,
      }),
    })
  return { fake, run }
}

describe('with a cluster', () => {
  test('presets and the labels of the namespace come from the cluster, and nothing is written', async () => {
    const { fake, run } = await clusterWith(
      preset(
        'title',
        '{selector: {}, matchConditions: [{name: team, expression: \'namespaceObject.metadata.labels.team == "a"\'}], domain: {title: hello}}',
      ),
    )
    const at = files({ 'vms.yaml': `${vm('a')}---\n${vm('b')}` })
    const { code, out } = await run(['complete', at('vms.yaml')])
    expect([code, out.match(/title: hello/g)?.length]).toEqual([0, 2])
    const asked = fake.requests.map(({ method, path }) => `${method} ${path}`)
    expect(asked.toSorted()).toEqual([
      'GET /api/v1/namespaces/default',
      'GET /apis/virtset.io/v1alpha1/clustervirtualmachinepresets',
      'GET /apis/virtset.io/v1alpha1/namespaces/default/virtualmachinepresets',
      'GET /apis/virtset.io/v1alpha1/nodeprofiles',
      'POST /apis/authentication.k8s.io/v1/selfsubjectreviews',
    ])
  })

  test.each<[string, string, RegExp]>([
    ['uses capabilities that profiles share', capabilitySetName(olderCapabilities('10.0')), /machine: pc-i440fx-9\.2/],
    ['ignores a profile whose set does not exist', 'missing', /machine: pc-i440fx-10\.0/],
  ])('%s', async (_, name, machine) => {
    const { fake, run } = await clusterWith()
    const { kind, spec } = nodeProfile('old', olderCapabilities('10.0'))
    const { capabilities, ...own } = spec
    const named = { ...own, capabilitySetName: name }
    fake.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata: { name: 'old' }, spec: named })
    fake.put('/apis/virtset.io/v1alpha1/nodecapabilitysets', {
      kind: 'NodeCapabilitySet',
      metadata: { name: capabilitySetName(capabilities) },
      spec: { capabilities },
    })
    const at = files({ 'vm.yaml': vm('a') })
    const { code, out } = await run(['complete', at('vm.yaml')])
    expect([code, out.match(machine)?.length]).toEqual([0, 1])
  })

  test.each<[string, string[], Fault | undefined, RegExp]>([
    ['uses the capabilities of its nodes', [], undefined, /machine: pc-i440fx-9\.2/],
    ['uses a given profile instead', ['--capabilities', 'FILE'], undefined, /machine: pc-i440fx-10\.0/],
    [
      'uses the bundled profile if the user cannot read those of the nodes',
      [],
      { status: 403, body: {} },
      /machine: pc-i440fx-10\.0/,
    ],
  ])('%s', async (_, flags, fault, machine) => {
    const { fake, run } = await clusterWith()
    const { kind, spec } = nodeProfile('old', olderCapabilities('10.0'))
    fake.put('/apis/virtset.io/v1alpha1/nodeprofiles', { kind, metadata: { name: 'old' }, spec })
    fake.fault = ({ path }) => (path.endsWith('/nodeprofiles') ? fault : undefined)
    const at = files({ 'vm.yaml': vm('a'), 'profile.json': JSON.stringify(bundledCapabilities) })
    const words = flags.map((word) => (word === 'FILE' ? at('profile.json') : word))
    const { code, out } = await run(['complete', at('vm.yaml'), ...words])
    expect(code).toBe(0)
    expect(out).toMatch(machine)
  })

  test('an error of the API server reads as in kubectl', async () => {
    const { fake, run } = await clusterWith()
    fake.fault = ({ path }) =>
      path.includes('presets')
        ? { status: 403, body: { kind: 'Status', reason: 'Forbidden', code: 403, message: 'presets is forbidden: no' } }
        : undefined
    const at = files({ 'vm.yaml': vm('a') })
    expect(await run(['complete', at('vm.yaml')])).toEqual({
      code: 2,
      out: '',
      err: 'error: from server (Forbidden): presets is forbidden: no\n',
    })
  })

  test('an unreachable cluster is named, with the flag to work without', async () => {
    const { fake, run } = await clusterWith()
    fake.fault = () => 'reset'
    const at = files({ 'vm.yaml': vm('a') })
    const { code, err } = await run(['complete', at('vm.yaml')])
    expect(code).toBe(2)
    expect(err).toMatch(
      /^error: the cluster at http:\/\/127\.0\.0\.1:\d+ cannot be reached: .*; without a cluster: --presets FILE\|DIR or --no-presets\n$/,
    )
  })
})

describe('completion in a shell', () => {
  const clusterOfVms = async () => {
    const { fake, run } = await clusterWith()
    const put = (plural: string, namespace: string, name: string) =>
      fake.put(`/apis/virtset.io/v1alpha1/${plural}`, { metadata: { name, namespace }, spec: {} })
    for (const name of ['web-2', 'db']) put('virtualmachines', 'default', name)
    for (const name of ['web-2', 'web-1']) put('virtualmachineconfigs', 'default', name)
    put('virtualmachines', 'team', 'web-9')
    return { fake, run }
  }

  test.each([
    [
      ['console', 'w'],
      ['web-1', 'web-2'],
    ],
    [
      ['console', ''],
      ['db', 'web-1', 'web-2'],
    ],
    [['console', '-n', 'team', ''], ['web-9']],
    [['console', '--namespace=team', ''], ['web-9']],
    [
      ['ssh', 'root@w'],
      ['root@web-1', 'root@web-2'],
    ],
    [
      ['start', ''],
      ['web-1', 'web-2'],
    ],
    [['explain', 'd'], ['db']],
    [['port-forward', 'db', ''], []],
    [['console', 'x'], []],
  ])('%j', async (words, expected) => {
    const { run } = await clusterOfVms()
    const { out } = await run(['__complete', '--', ...words])
    expect(out.split('\n').filter((word) => word !== '')).toEqual(expected)
  })

  test('text that is not a valid name is not offered', async () => {
    const { fake, run } = await clusterOfVms()
    const names = ['$(id)', 'a;id', '`id`', '--flag', 'a\nb', '\u001b[2J', 'good']
    const items = names.map((name) => ({ metadata: { name, namespace: 'default', uid: name, resourceVersion: '1' } }))
    fake.fault = () => ({ status: 200, body: { metadata: { resourceVersion: '1' }, items } })
    expect((await run(['__complete', '--', 'console', ''])).out).toBe('good\n')
  })

  test('a cluster that refuses or cannot be reached has no names', async () => {
    const { fake, run } = await clusterOfVms()
    fake.fault = ({ path }) =>
      path.includes('configs') ? { status: 403, body: { kind: 'Status', reason: 'Forbidden', code: 403 } } : undefined
    expect((await run(['__complete', '--', 'console', ''])).out).toBe('db\nweb-2\n')
    await fake.close()
    expect(await run(['__complete', '--', 'console', ''])).toMatchObject({ code: 0, out: '', err: '' })
  })
})
