import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { noSessions, runVm } from '../test/cli/world.ts'
import { type FakeApiServer, startFakeApiServer } from '../test/fake-apiserver.ts'
import { progressOf } from './snapshot.ts'

const api = '/apis/virtset.io/v1alpha1'
const [configs, snapshots] = [`${api}/virtualmachineconfigs`, `${api}/virtualmachinesnapshots`]
const claims = '/api/v1/persistentvolumeclaims'
const volumeSnapshots = '/apis/snapshot.storage.k8s.io/v1/volumesnapshots'
const template = (name: string, source?: object, storage = '1Gi') => ({
  name,
  ...(source === undefined ? {} : { source }),
  spec: { storageClassName: 'fast', resources: { requests: { storage } } },
})
const taken = (name: string, claimName = `${name}-db`) => ({ name, claimName, volumeSnapshotName: `nightly-${name}` })

let server: FakeApiServer
let kube: KubeClient

beforeEach(async () => {
  server = await startFakeApiServer()
  kube = createKubeClient({ access: server.access, userAgent: 'kubectl-vm' })
  putConfig()
  putSnapshot({ phase: 'Ready', volumes: [taken('root')] })
  putClaim('root-db', { 'virtset.io/config': 'db' })
  for (const name of ['root', 'log']) putVolumeSnapshot(name)
})

afterEach(async () => {
  await kube.close()
  await server.close()
})

const put = (collection: string, name: string, rest: object) =>
  server.put(collection, { metadata: { namespace: 'default', name }, ...rest })

const putConfig = (status: object = { phase: 'Stopped' }, domain: object = {}) =>
  put(configs, 'db', {
    spec: {
      claimTemplates: [template('root', { image: { reference: 'a' } }), template('log')],
      template: { spec: { domain } },
    },
    status,
  })
const putSnapshot = (status: object, source: object = { kind: 'VirtualMachineConfig', name: 'db' }, metadata = {}) =>
  server.put(snapshots, {
    metadata: { namespace: 'default', name: 'nightly', uid: 's-1', ...metadata },
    spec: { source },
    status,
  })
const putVolumeSnapshot = (name: string, { metadata = {}, status = {}, claim = `${name}-db` } = {}) =>
  server.put(volumeSnapshots, {
    metadata: { namespace: 'default', name: `nightly-${name}`, ownerReferences: [{ uid: 's-1' }], ...metadata },
    spec: { source: { persistentVolumeClaimName: claim } },
    status: { readyToUse: true, ...status },
  })
const putClaim = (name: string, labels: { readonly [key: string]: string }) =>
  server.put(claims, { metadata: { namespace: 'default', name, labels }, spec: {} })

const vm = (...words: readonly string[]) =>
  runVm(words, { cluster: async () => ({ ...noSessions, kube, server: server.url }), now: () => performance.now() })
const stored = (collection: string, name: string): object | undefined => server.find(collection, 'default', name)
const writes = () => server.requests.filter(({ method }) => method !== 'GET')

describe('kubectl vm snapshot', () => {
  test('takes a snapshot of the VM of a config', async () => {
    const { code, out } = await vm('snapshot', 'db', '--name', 'weekly', '--class', 'fast')
    expect([code, out]).toEqual([0, 'virtualmachinesnapshot.virtset.io/weekly created\n'])
    expect(stored(snapshots, 'weekly')).toMatchObject({
      spec: { source: { kind: 'VirtualMachineConfig', name: 'db' }, volumeSnapshotClassName: 'fast' },
    })
  })

  test('takes a snapshot of a VM without a config, with a name by the API server', async () => {
    put(`${api}/virtualmachines`, 'alone', { spec: {} })
    expect(await vm('snapshot', 'alone')).toMatchObject({ code: 0 })
    expect(writes()).toMatchObject([
      { body: { metadata: { generateName: 'alone-' }, spec: { source: { kind: 'VirtualMachine', name: 'alone' } } } },
    ])
  })

  test('of what does not exist is an error', async () => {
    expect(await vm('snapshot', 'none')).toMatchObject({ code: 2, err: 'error: no VM and no config none in default\n' })
  })

  test('--wait shows the progress until it is ready', async () => {
    server.fault = ({ method, path }) => {
      if (method === 'GET' && path.endsWith('/nightly2')) {
        const conditions = [{ type: 'Quiesced', status: 'True', reason: 'GuestFrozen', message: '' }]
        put(snapshots, 'nightly2', { spec: { source: { name: 'db' } }, status: { phase: 'Ready', conditions } })
      }
      return undefined
    }
    expect(await vm('snapshot', 'db', '--name', 'nightly2', '--wait')).toMatchObject({
      code: 0,
      err: 'nightly2: Ready; quiesced: True (GuestFrozen)\n',
    })
  })

  test('--dry-run creates nothing', async () => {
    const { out } = await vm('snapshot', 'db', '--name', 'weekly', '--dry-run', '--wait')
    expect(out).toBe('virtualmachinesnapshot.virtset.io/weekly created (dry run)\n')
    expect(writes()[0]?.query.get('dryRun')).toBe('All')
  })

  test.each([
    ['that the controller has not seen', undefined, 'in progress', 'Pending'],
    ['that waits', { phase: 'Pending', conditions: [ready('no driver')] }, 'in progress', 'Pending (no driver)'],
    ['that failed', { phase: 'Failed', conditions: [ready('no claims')] }, 'failed', 'Failed (no claims)'],
    ['that is ready', { phase: 'Ready', conditions: [ready('x')] }, 'done', 'Ready'],
  ] as const)('the progress of a snapshot %s', (_, status, state, words) => {
    expect(progressOf(status === undefined ? {} : { status })).toEqual({ state, words })
  })
})

const ready = (message: string) =>
  ({ type: 'Ready', status: 'False', reason: 'X', message, lastTransitionTime: '' }) as const

const deleting = { deletionTimestamp: '2030-01-01T00:00:00Z', finalizers: ['a/b'] }
const nightlyRoot = 'error: the VolumeSnapshot nightly-root of the volume "root"'

describe('kubectl vm restore', () => {
  test('changes the template before it deletes the claim, which is then created from it', async () => {
    expect(await vm('restore', 'db', 'nightly')).toEqual({
      code: 0,
      out: 'persistentvolumeclaim/root-db deleted\nvirtualmachineconfig.virtset.io/db restored from nightly\n',
      err: 'root-db: deleted\n',
    })
    expect(writes().map(({ method, path }) => `${method} ${path.split('/').at(-1)}`)).toEqual([
      'PATCH db',
      'DELETE root-db',
    ])
    expect(stored(configs, 'db')).toMatchObject({
      spec: { claimTemplates: [template('root', { snapshot: { name: 'nightly-root' } }), template('log')] },
    })
    expect(stored(claims, 'root-db')).toBe(undefined)
  })

  test.each([
    ['larger', '1536Mi', '1536Mi'],
    ['smaller', '512Mi', '1Gi'],
  ])('requests at least the size of the snapshot, which is %s than the template', async (_, restoreSize, storage) => {
    putVolumeSnapshot('root', { status: { restoreSize } })
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 0 })
    expect(stored(configs, 'db')).toMatchObject({
      spec: { claimTemplates: [template('root', { snapshot: { name: 'nightly-root' } }, storage), template('log')] },
    })
  })

  test('continues where a claim is deleted already', async () => {
    putSnapshot({ phase: 'Ready', volumes: [taken('root'), taken('log')] })
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({
      code: 0,
      out: 'persistentvolumeclaim/root-db deleted\nvirtualmachineconfig.virtset.io/db restored from nightly\n',
    })
  })

  test('--dry-run deletes nothing', async () => {
    expect(await vm('restore', 'db', 'nightly', '--dry-run')).toMatchObject({
      out: expect.stringContaining('persistentvolumeclaim/root-db deleted (dry run)\n'),
    })
    expect(writes().map(({ method, query }) => [method, query.get('dryRun')])).toEqual([['PATCH', 'All']])
    expect(stored(claims, 'root-db')).toBeDefined()
  })

  test.each([
    [
      'whose VM runs',
      () => putConfig({ phase: 'Running' }),
      'error: the VM of db uses its claims: stop it first with `kubectl vm stop db --wait`\n',
    ],
    [
      'from a snapshot that is not ready',
      () => putSnapshot({ phase: 'Failed', conditions: [ready('no claims')] }),
      'error: the snapshot nightly is not ready: Failed (no claims)\n',
    ],
    [
      'from a snapshot whose VolumeSnapshot is gone',
      () => server.remove(volumeSnapshots, 'default', 'nightly-root'),
      `${nightlyRoot} has been deleted, so nightly cannot be restored\n`,
    ],
    [
      'from a snapshot that is being deleted',
      () => putSnapshot({ phase: 'Ready', volumes: [taken('root')] }, undefined, deleting),
      'error: the snapshot nightly is being deleted\n',
    ],
    [
      'from a snapshot whose VolumeSnapshot is being deleted',
      () => putVolumeSnapshot('root', { metadata: deleting }),
      `${nightlyRoot} is being deleted, so nightly cannot be restored\n`,
    ],
    [
      'from a snapshot whose VolumeSnapshot was replaced by another one',
      () => putVolumeSnapshot('root', { metadata: { ownerReferences: [{ uid: 's-0' }] } }),
      `${nightlyRoot} does not belong to the snapshot, so nightly cannot be restored\n`,
    ],
    [
      'from a snapshot whose VolumeSnapshot belongs to nobody',
      () => putVolumeSnapshot('root', { metadata: { ownerReferences: undefined } }),
      `${nightlyRoot} does not belong to the snapshot, so nightly cannot be restored\n`,
    ],
    [
      'from a snapshot whose VolumeSnapshot is of another claim',
      () => putVolumeSnapshot('root', { claim: 'other' }),
      `${nightlyRoot} is not of the claim root-db, so nightly cannot be restored\n`,
    ],
    [
      'from a snapshot whose VolumeSnapshot cannot be used',
      () => putVolumeSnapshot('root', { status: { readyToUse: false, error: { message: 'content is gone' } } }),
      `${nightlyRoot} is not ready to use: content is gone, so nightly cannot be restored\n`,
    ],
    [
      'from a snapshot whose VolumeSnapshot has no status',
      () => putVolumeSnapshot('root', { status: { readyToUse: undefined } }),
      `${nightlyRoot} is not ready to use, so nightly cannot be restored\n`,
    ],
    [
      'from a snapshot of other claims',
      () => putSnapshot({ phase: 'Ready', volumes: [taken('root'), taken('data', 'shared')] }),
      'error: db has no claim template for shared (volume "data"), which the snapshot nightly has. Create a config',
    ],
    [
      'whose claim has the name of that of another config',
      () => putClaim('root-db', { 'virtset.io/config': 'other' }),
      'error: the claim root-db was not created for the config db, and can contain other data. ',
    ],
    [
      'whose claim a user has created',
      () => putClaim('root-db', {}),
      'error: the claim root-db was not created for the config db, and can contain other data. ',
    ],
    [
      'one of whose claims is not its own',
      () => {
        putSnapshot({ phase: 'Ready', volumes: [taken('root'), taken('log')] })
        putClaim('log-db', { 'virtset.io/group': 'db' })
      },
      'error: the claim log-db was not created for the config db, and can contain other data. ',
    ],
  ])('changes nothing for a config %s', async (_, arrange, err) => {
    arrange()
    const result = await vm('restore', 'db', 'nightly')
    expect([result.code, result.err.slice(0, err.length)]).toEqual([2, err])
    expect(writes()).toEqual([])
    expect(stored(claims, 'root-db')).toBeDefined()
  })

  test('changes nothing for a user who cannot read VolumeSnapshots', async () => {
    server.fault = ({ path }) =>
      path.includes('volumesnapshots')
        ? { status: 403, body: { kind: 'Status', code: 403, reason: 'Forbidden', message: 'no' } }
        : undefined
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 1, err: 'Error from server (Forbidden): no\n' })
    expect(writes()).toEqual([])
    expect(stored(claims, 'root-db')).toBeDefined()
  })

  test('prints what the API server refuses', async () => {
    server.fault = ({ method }) =>
      method === 'PATCH'
        ? { status: 403, body: { kind: 'Status', code: 403, reason: 'Forbidden', message: 'no' } }
        : undefined
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({
      code: 1,
      err: 'Error from server (Forbidden): no\n',
    })
    expect(stored(claims, 'root-db')).toBeDefined()
  })
})

describe('kubectl vm clone', () => {
  test('creates a config with claims from the snapshot, and without the identity of the VM', async () => {
    const nic = { type: 'user', mac: { address: '52:54:00:00:00:01' } }
    const domain = { uuid: 'u', genid: 'g', title: 'database', devices: { interfaces: [nic], serials: [{}] } }
    putConfig({ phase: 'Running' }, domain)
    expect(await vm('clone', 'nightly', 'copy')).toMatchObject({
      code: 0,
      out: 'virtualmachineconfig.virtset.io/copy created from nightly\n',
    })
    expect(stored(configs, 'copy')).toMatchObject({
      spec: {
        claimTemplates: [template('root', { snapshot: { name: 'nightly-root' } }), template('log')],
        template: {
          spec: { domain: { title: 'database', devices: { interfaces: [{ type: 'user' }], serials: [{}] } } },
        },
      },
    })
    expect(JSON.stringify(stored(configs, 'copy'))).not.toMatch(/uuid|genid|52:54/)
  })

  test('of a snapshot of a VM without a config is an error', async () => {
    putSnapshot({ phase: 'Ready', volumes: [taken('root')] }, { name: 'alone' })
    expect(await vm('clone', 'nightly', 'copy')).toMatchObject({
      code: 2,
      err: expect.stringContaining('nightly was taken of alone, which has no VirtualMachineConfig in default'),
    })
  })
})
