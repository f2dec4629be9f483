import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { VirtualMachineConfig } from '../api/config.ts'
import { createKubeClient, type KubeClient } from '../runtime/kube.ts'
import { noSessions, runVm } from '../test/cli/world.ts'
import { type FakeApiServer, type FakeRequest, startFakeApiServer } from '../test/fake-apiserver.ts'
import { until } from '../test/until.ts'
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
  controllerIsDown = false
  putConfig()
  putSnapshot({ phase: 'Ready', volumes: [taken('root')] })
  putClaim('root-db', own)
  for (const name of ['root', 'log']) putVolumeSnapshot(name)
})

afterEach(async () => {
  await kube.close()
  await server.close()
})

const put = (collection: string, name: string, rest: object) =>
  server.put(collection, { metadata: { namespace: 'default', name }, ...rest })

/** The controller is taken to have seen each change, unless a status states otherwise. */
const putConfig = (status: object = {}, domain: object = {}) =>
  put(configs, 'db', {
    spec: {
      claimTemplates: [template('root', { image: { reference: 'a' } }), template('log')],
      template: { spec: { domain } },
    },
    status: { phase: 'Stopped', observedGeneration: 99, ...status },
  })
const putSnapshot = (status: object, source: object = { kind: 'VirtualMachineConfig', name: 'db' }, metadata = {}) =>
  server.put(snapshots, {
    metadata: { namespace: 'default', name: 'nightly', uid: 's-1', ...metadata },
    spec: { source },
    status,
  })
const putOther = (
  status: object | undefined,
  of: object = { kind: 'VirtualMachineConfig', name: 'db' },
  metadata = {},
) =>
  server.put(snapshots, {
    metadata: { namespace: 'default', name: 'before', ...metadata },
    spec: { source: of },
    ...(status === undefined ? {} : { status }),
  })
const putVolumeSnapshot = (name: string, { metadata = {}, status = {}, claim = `${name}-db` } = {}) =>
  server.put(volumeSnapshots, {
    metadata: { namespace: 'default', name: `nightly-${name}`, ownerReferences: [{ uid: 's-1' }], ...metadata },
    spec: { source: { persistentVolumeClaimName: claim } },
    status: { readyToUse: true, ...status },
  })
const own = { 'virtset.io/config': 'db' }
const putClaim = (name: string, labels: { readonly [key: string]: string }, spec: object = {}, metadata: object = {}) =>
  server.put(claims, { metadata: { namespace: 'default', name, labels, ...metadata }, spec })
const putVm = (phase: string) => put(`${api}/virtualmachines`, 'db', { spec: {}, status: { phase } })
const putOtherVm = (spec: object, status: object = { phase: 'Running' }) =>
  put(`${api}/virtualmachines`, 'other', { spec, status })
/** A VM with a claim that is filled from that of the config, and when that was done. */
const putFilledVm = (filledAt: string | undefined) => {
  const annotations = filledAt === undefined ? {} : { 'virtset.io/filled': filledAt }
  putClaim('copy', {}, {}, { annotations })
  const source = { claim: { claimName: 'root-db' } }
  server.put(`${api}/virtualmachines`, {
    metadata: { namespace: 'default', name: 'other', creationTimestamp: '2030-01-01T00:00:00Z' },
    spec: { volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'copy', source } }] },
    status: { phase: 'Running' },
  })
}
const attachedVolumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'root-db' } }]
const fromNightly = (name: string) => ({
  dataSource: { apiGroup: 'snapshot.storage.k8s.io', kind: 'VolumeSnapshot', name: `nightly-${name}` },
})
/** In the place of the old claim, if that exists. */
const putFromNightly = (name: string, phase: string) => {
  server.remove(claims, 'default', `${name}-db`)
  server.put(claims, {
    metadata: { namespace: 'default', name: `${name}-db`, labels: own },
    spec: fromNightly(name),
    status: { phase },
  })
}

const vm = (...words: readonly string[]) => vmUntil(new Promise(() => {}), words)
const vmUntil = (interrupted: Promise<void>, words: readonly string[], now = () => 0) => {
  const { fault } = server
  server.fault = (request) => {
    if (isRequested(request) && !controllerIsDown) createClaims()
    return fault?.(request)
  }
  return runVm(words, {
    cluster: async () => ({ ...noSessions, kube, server: server.url }),
    now,
    interrupted: () => interrupted,
  })
}
let controllerIsDown = false
const isRequested = ({ method, body }: FakeRequest) =>
  method === 'PATCH' && JSON.stringify(body).includes('virtset.io/restored-at')
/** As a pass of the controller does. */
const createClaims = () => {
  const { claimTemplates } = server.find(configs, 'default', 'db')!['spec'] as VirtualMachineConfig['spec']
  for (const { name, source } of claimTemplates ?? []) {
    if (stored(claims, `${name}-db`) !== undefined) continue
    putClaim(`${name}-db`, own, source?.snapshot === undefined ? {} : fromNightly(name))
  }
}
/** A timeout of a second ends after two looks, however long these take. */
const vmForTwoLooks = (...words: readonly string[]) => {
  let ms = 0
  return vmUntil(new Promise(() => {}), [...words, '--timeout', '1'], () => (ms += 400))
}
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
const usedByVm = 'error: the VM of db uses its claims: stop it first with `kubectl vm stop db --wait`\n'
const usedByOther = 'error: the VM other uses the claim root-db: stop it or detach the volume first\n'
const beforeUntaken =
  'error: the snapshot before of db is not taken yet, and would be taken of the restored claims: wait for it (its condition Ready shows what it waits for), or delete it\n'
const nightlyRoot = 'error: the VolumeSnapshot nightly-root of the volume "root"'

const runAgain = 'the restore of db is not complete: run the command again\n'
const waiting = 'db: waiting for the controller to read the claim templates\n'
const untilCreated = 'db: waiting for the controller to create root-db (events: kubectl describe vmc db)\n'
const unfilledRoot =
  'db: each claim is from the snapshot. Not filled yet: root-db; keep the snapshot until db has started\n'
const unchangedRoot = 'root-db is unchanged. Start db as it is, or restore it from another snapshot\n'
const restoreOther = 'Restore db from another snapshot, or change its claim templates, before you start it\n'
const writeNames = () => writes().map(({ method, path }) => `${method} ${path.split('/').at(-1)}`)

describe('kubectl vm restore', () => {
  test('changes the template before it deletes the claim, which is then created from it', async () => {
    expect(await vm('restore', 'db', 'nightly')).toEqual({
      code: 0,
      out: 'persistentvolumeclaim/root-db deleted\nvirtualmachineconfig.virtset.io/db restored from nightly\n',
      err: `db: being deleted: root-db\n${untilCreated}${unfilledRoot}`,
    })
    expect(writeNames()).toEqual(['PATCH db', 'DELETE root-db', 'PATCH db'])
    expect(stored(configs, 'db')).toMatchObject({
      spec: { claimTemplates: [template('root', { snapshot: { name: 'nightly-root' } }), template('log')] },
    })
    expect(stored(claims, 'root-db')).toMatchObject({ spec: fromNightly('root') })
  })

  test('does not call a config restored before its claim exists again', async () => {
    controllerIsDown = true
    let ms = 0
    const words = ['restore', 'db', 'nightly', '--timeout', '2']
    expect(await vmUntil(new Promise(() => {}), words, () => (ms += 400))).toEqual({
      code: 1,
      out: 'persistentvolumeclaim/root-db deleted\n',
      err: `db: being deleted: root-db\n${untilCreated}error: timed out after 2 s; ${runAgain}`,
    })
    expect(writeNames()).toEqual(['PATCH db', 'DELETE root-db', 'PATCH db'])

    controllerIsDown = false
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 0, err: `${untilCreated}${unfilledRoot}` })
  })

  test('requests the claim again if it is created from the old template', async () => {
    server.fault = (request) => {
      if (isRequested(request) && writes().length === 3) putClaim('root-db', own)
      return undefined
    }
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 0 })
    expect(writeNames()).toEqual(['PATCH db', 'DELETE root-db', 'PATCH db', 'DELETE root-db', 'PATCH db'])
    expect(stored(claims, 'root-db')).toMatchObject({ spec: fromNightly('root') })
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

  describe('of two claims', () => {
    beforeEach(() => {
      putSnapshot({ phase: 'Ready', volumes: [taken('root'), taken('log')] })
      putClaim('root-db', own, {}, { finalizers: ['kubernetes.io/pvc-protection'] })
      putClaim('log-db', own)
    })

    test('deletes both before it waits for one, and says what to do after a timeout', async () => {
      expect(await vmForTwoLooks('restore', 'db', 'nightly')).toEqual({
        code: 1,
        out: 'persistentvolumeclaim/root-db deleted\npersistentvolumeclaim/log-db deleted\n',
        err: `db: being deleted: root-db, log-db\ndb: being deleted: root-db\nerror: timed out after 1 s; ${runAgain}`,
      })
      expect(stored(claims, 'log-db')).toBe(undefined)
    })

    test('is finished by the next run, also if one claim is new already', async () => {
      await vmForTwoLooks('restore', 'db', 'nightly')
      server.remove(claims, 'default', 'root-db')
      putClaim('root-db', own, fromNightly('root'))
      expect(await vm('restore', 'db', 'nightly')).toMatchObject({
        code: 0,
        out: 'persistentvolumeclaim/root-db deleted\nvirtualmachineconfig.virtset.io/db restored from nightly\n',
      })
    })

    test('says what to do after an interrupt, and ends at once', async () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      const result = vmUntil(promise, ['restore', 'db', 'nightly'])
      await until(() => stored(claims, 'log-db') === undefined)
      resolve()
      expect(await result).toMatchObject({ code: 2, err: expect.stringContaining(`error: interrupted; ${runAgain}`) })
    })

    test.each([
      ['the VM is started', () => putVm('Pending'), usedByVm],
      [
        'another VM gets the other',
        () => putOtherVm({ volumes: [{ persistentVolumeClaim: { claimName: 'log-db' } }] }),
        usedByOther.replace('root-db', 'log-db'),
      ],
      ['another snapshot is created', () => putOther(undefined), beforeUntaken],
    ])('deletes no further one if, while one is deleted, %s', async (_, meanwhile, err) => {
      server.fault = ({ method }) => {
        if (method === 'DELETE') meanwhile()
        return undefined
      }
      const result = await vm('restore', 'db', 'nightly')
      expect([result.code, result.out]).toEqual([2, 'persistentvolumeclaim/root-db deleted\n'])
      expect(result.err).toContain(`error: ${runAgain}${err}`)
      expect(writeNames()).toEqual(['PATCH db', 'DELETE root-db'])
    })

    test('says what to do after a refusal', async () => {
      const body = { kind: 'Status', code: 403, reason: 'Forbidden', message: 'no' }
      server.fault = ({ method, path }) =>
        method === 'DELETE' && path.endsWith('log-db') ? { status: 403, body } : undefined
      expect(await vm('restore', 'db', 'nightly')).toMatchObject({
        code: 1,
        err: `error: ${runAgain}Error from server (Forbidden): no\n`,
      })
    })
  })

  test.each([
    ['the VM is started', () => putVm('Pending'), usedByVm],
    ['another VM gets the claim', () => putOtherVm({ attachedVolumes }), usedByOther],
  ])('deletes nothing if %s while the template is changed', async (_, meanwhile, err) => {
    server.fault = ({ method }) => {
      if (method === 'PATCH') meanwhile()
      return undefined
    }
    expect(await vm('restore', 'db', 'nightly')).toEqual({ code: 2, out: '', err: `error: ${runAgain}${err}` })
    expect(writeNames()).toEqual(['PATCH db'])
  })

  test.each([
    ['that had it as an attached volume and is finished', { attachedVolumes }, { phase: 'Succeeded' }],
    ['with other claims', { volumes: [{ name: 'a', persistentVolumeClaim: { claimName: 'log-db' } }, { name: 'b' }] }],
  ])('does not wait for another VM %s', async (_, spec, status?: object) => {
    putOtherVm(spec, status)
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 0 })
  })

  test('does not wait for another VM whose claim was filled before it was created', async () => {
    putFilledVm('2029-12-31T23:59:59Z')
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 0 })
  })

  test.each([
    ['db', 'Succeeded', () => putVm('Succeeded')],
    ['db', 'Failed', () => putVm('Failed')],
    ['other', 'Failed', (volumes: object) => putOtherVm(volumes, { phase: 'Failed' })],
  ])('refuses a claim of the VM %s that is %s: its pod keeps it', async (name, _, put) => {
    put({ volumes: [{ name: 'root', persistentVolumeClaim: { claimName: 'root-db' } }] })
    const { code, err } = await vm('restore', 'db', 'nightly')
    expect([code, err]).toEqual([2, expect.stringContaining(`delete it first with \`kubectl delete vm ${name}\``)])
    expect(writes()).toEqual([])
  })

  /** While the command waits for the controller, after it has changed the templates. */
  const onSecondLook = (meanwhile: () => void) => {
    let looks = 0
    server.fault = ({ method, path }) => {
      if (method === 'GET' && path.endsWith('/virtualmachineconfigs/db') && writes().length > 0 && ++looks === 2)
        meanwhile()
      return undefined
    }
  }
  const observe = () => {
    const config = server.find(configs, 'default', 'db')
    if (config !== undefined) server.put(configs, { ...config, status: { observedGeneration: 2 } })
  }

  test('deletes nothing before a pass of the controller has read the new template', async () => {
    putConfig({ observedGeneration: 1 })
    let early: readonly string[] = []
    onSecondLook(() => {
      early = writeNames()
      observe()
    })
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({
      code: 0,
      err: `${waiting}db: being deleted: root-db\n${untilCreated}${unfilledRoot}`,
    })
    expect([early, writeNames()]).toEqual([['PATCH db'], ['PATCH db', 'DELETE root-db', 'PATCH db']])
  })

  test.each([
    [
      'the snapshot is deleted',
      () => server.remove(snapshots, 'default', 'nightly'),
      `error: the snapshot nightly has been deleted: ${unchangedRoot}`,
    ],
    [
      'the VolumeSnapshot is deleted',
      () => server.remove(volumeSnapshots, 'default', 'nightly-root'),
      `${nightlyRoot} has been deleted, so nightly cannot be restored: ${unchangedRoot}`,
    ],
    [
      'the snapshot is replaced by another one of its name',
      () => putSnapshot({ phase: 'Ready', volumes: [taken('root')] }, undefined, { uid: 's-2' }),
      `error: the snapshot nightly has been deleted: ${unchangedRoot}`,
    ],
    ['another snapshot is created', () => putOther(undefined), `error: ${runAgain}${beforeUntaken}`],
    [
      'the claim templates are changed back, and read',
      () => putConfig(),
      `error: ${runAgain}error: another client, such as a GitOps tool, has changed the claim templates of db meanwhile, `,
    ],
  ])('deletes nothing if, while it waits for the controller, %s', async (_, meanwhile, err) => {
    putConfig({ observedGeneration: 1 })
    onSecondLook(() => {
      observe()
      meanwhile()
    })
    const result = await vm('restore', 'db', 'nightly')
    expect([result.code, result.out]).toEqual([2, ''])
    expect(result.err.slice(waiting.length, waiting.length + err.length)).toBe(err)
    expect(result.err.includes(runAgain)).toBe(err.includes(runAgain))
    expect(writeNames()).toEqual(['PATCH db'])
  })

  test.each([
    ['is taken, and being uploaded', { phase: 'InProgress', creationTime: '2030-01-01T00:00:00Z' }],
    ['has failed', { phase: 'Failed' }],
    ['is being deleted', { phase: 'Pending' }, undefined, deleting],
    ['is of another config', { phase: 'Pending' }, { kind: 'VirtualMachineConfig', name: 'other' }],
    ['is in another namespace', { phase: 'Pending' }, undefined, { namespace: 'other' }],
  ])('does not wait for another snapshot that %s', async (_, status, of?: object, metadata?: object) => {
    putOther(status, of, metadata)
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 0 })
  })

  test('deletes no further claim once a VolumeSnapshot is gone', async () => {
    putSnapshot({ phase: 'Ready', volumes: [taken('root'), taken('log')] })
    putClaim('log-db', own)
    server.fault = ({ method }) => {
      if (method === 'DELETE') server.remove(volumeSnapshots, 'default', 'nightly-log')
      return undefined
    }
    expect(await vm('restore', 'db', 'nightly')).toEqual({
      code: 2,
      out: 'persistentvolumeclaim/root-db deleted\n',
      err: `error: the VolumeSnapshot nightly-log of the volume "log" has been deleted, so nightly cannot be restored: root-db is deleted; log-db is unchanged. ${restoreOther}`,
    })
    expect(writeNames()).toEqual(['PATCH db', 'DELETE root-db'])
  })

  test.each([
    ['the last claim is gone', () => server.remove(claims, 'default', 'root-db'), 'is deleted'],
    ['the last claim is being deleted', () => {}, 'is being deleted'],
    ['the storage has not filled the new claim', () => putFromNightly('root', 'Pending'), 'is not filled yet'],
  ])('does not call a config restored whose snapshot is deleted when %s', async (_, meanwhile, state) => {
    putClaim('root-db', own, {}, { finalizers: ['kubernetes.io/pvc-protection'] })
    server.fault = ({ method, path }) => {
      if (method === 'GET' && path.endsWith('/virtualmachineconfigs/db') && writes().length === 2) {
        server.remove(snapshots, 'default', 'nightly')
        meanwhile()
      }
      return undefined
    }
    expect(await vmForTwoLooks('restore', 'db', 'nightly')).toEqual({
      code: 2,
      out: 'persistentvolumeclaim/root-db deleted\n',
      err: `db: being deleted: root-db\nerror: the snapshot nightly has been deleted: root-db ${state}. ${restoreOther}`,
    })
  })

  test('says which claims are restored when the snapshot is deleted before the others are', async () => {
    putSnapshot({ phase: 'Ready', volumes: [taken('root'), taken('log')] })
    putClaim('log-db', own, {}, { finalizers: ['kubernetes.io/pvc-protection'] })
    server.fault = ({ method, path }) => {
      if (method === 'GET' && path.endsWith('/virtualmachineconfigs/db') && writes().length === 3) {
        server.remove(snapshots, 'default', 'nightly')
        putFromNightly('root', 'Bound')
      }
      return undefined
    }
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({
      code: 2,
      err: expect.stringContaining(
        `error: the snapshot nightly has been deleted: root-db is restored; log-db is being deleted. ${restoreOther}`,
      ),
    })
  })

  test('needs the snapshot no longer once its claims are filled', async () => {
    server.fault = ({ method, path }) => {
      if (method === 'GET' && path.endsWith('/virtualmachineconfigs/db') && writes().length === 2) {
        server.remove(snapshots, 'default', 'nightly')
        putFromNightly('root', 'Bound')
      }
      return undefined
    }
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({
      code: 0,
      err: 'db: being deleted: root-db\ndb: each claim is from the snapshot\n',
    })
  })

  test.each([
    [
      'deletes a claim that is created from the old template meanwhile',
      {},
      ['PATCH db', 'DELETE root-db', 'DELETE root-db', 'PATCH db'],
    ],
    ['keeps a claim that is created from the snapshot meanwhile', fromNightly('root'), ['PATCH db', 'DELETE root-db']],
  ])('%s', async (_, spec, expected) => {
    let deleted = false
    server.fault = ({ method, path }) => {
      if (method === 'DELETE') deleted = true
      else if (deleted && path.endsWith('root-db') && writes().length === 2) putClaim('root-db', own, spec)
      return undefined
    }
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({ code: 0 })
    expect(writeNames()).toEqual(expected)
  })

  test('keeps a claim that a user creates meanwhile, and fails', async () => {
    server.fault = ({ method, path }) => {
      if (method === 'GET' && path.endsWith('root-db') && writes().length === 2) putClaim('root-db', {})
      return undefined
    }
    expect(await vm('restore', 'db', 'nightly')).toMatchObject({
      code: 2,
      err: expect.stringContaining('error: the claim root-db was not created for the config db'),
    })
    expect(stored(claims, 'root-db')).toBeDefined()
  })

  test('--dry-run deletes nothing', async () => {
    expect(await vm('restore', 'db', 'nightly', '--dry-run')).toMatchObject({
      out: expect.stringContaining('persistentvolumeclaim/root-db deleted (dry run)\n'),
    })
    expect(writes().map(({ method, query }) => [method, query.get('dryRun')])).toEqual([['PATCH', 'All']])
    expect(stored(claims, 'root-db')).toBeDefined()
  })

  test.each([
    ['whose VM runs', () => putConfig({ phase: 'Running' }), usedByVm],
    ['whose VM runs, which its status does not show yet', () => putVm('Running'), usedByVm],
    [
      'whose VM is being created by a restart',
      () => putConfig({ phase: 'Failed', restart: { uid: 'v-1', requestedAt: '2030-01-01T00:00:00Z' } }),
      usedByVm,
    ],
    [
      'whose claim is a volume of another VM',
      () => putOtherVm({ volumes: [{ name: 'a' }, { name: 'data', persistentVolumeClaim: { claimName: 'root-db' } }] }),
      usedByOther,
    ],
    ['whose claim another VM is filled from', () => putFilledVm(undefined), usedByOther],
    ['whose claim another VM was filled from at this start', () => putFilledVm('2030-01-01T00:00:00Z'), usedByOther],
    ['whose claim another VM is filled from, as a user states', () => putFilledVm('true'), usedByOther],
    ['whose claim is attached to another VM', () => putOtherVm({ attachedVolumes }), usedByOther],
    [
      'whose claim is being detached from another VM',
      () => putOtherVm({}, { phase: 'Running', attachedVolumes: [{ name: 'data', claimName: 'root-db' }] }),
      usedByOther,
    ],
    ['of which another snapshot is new', () => putOther(undefined), beforeUntaken],
    ['of which another snapshot waits', () => putOther({ phase: 'Pending' }), beforeUntaken],
    ['of which another snapshot is being taken', () => putOther({ phase: 'InProgress' }), beforeUntaken],
    ['of whose VM a snapshot waits', () => putOther({ phase: 'Pending' }, { name: 'db' }), beforeUntaken],
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

  test.each(['volumesnapshots', 'virtualmachines'])('changes nothing for a user who cannot read %s', async (plural) => {
    server.fault = ({ path }) =>
      path.split('/').includes(plural)
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

  test('copies the labels and annotations of the template, and not those by which tools track the config', async () => {
    const config = server.find(configs, 'default', 'db')
    const template = { metadata: { labels: { app: 'db' }, annotations: { note: 'x' } }, spec: { domain: {} } }
    server.put(configs, {
      metadata: {
        namespace: 'default',
        name: 'db',
        labels: { 'app.kubernetes.io/instance': 'shop', 'kapp.k14s.io/app': '17', team: 'a' },
        annotations: { 'argocd.argoproj.io/tracking-id': 'shop', 'meta.helm.sh/release-name': 'shop' },
      },
      spec: { ...(config?.['spec'] as object), template },
    })
    expect(await vm('clone', 'nightly', 'copy')).toMatchObject({ code: 0 })
    const copy = server.find(configs, 'default', 'copy')
    expect([copy?.metadata.labels, copy?.metadata['annotations']]).toEqual([undefined, undefined])
    expect(copy?.['spec']).toMatchObject({ template })
  })

  test('of a snapshot of a VM without a config is an error', async () => {
    putSnapshot({ phase: 'Ready', volumes: [taken('root')] }, { name: 'alone' })
    expect(await vm('clone', 'nightly', 'copy')).toMatchObject({
      code: 2,
      err: expect.stringContaining('nightly was taken of alone, which has no VirtualMachineConfig in default'),
    })
  })
})
