import { describe, expect, test } from 'vitest'
import { apiVersion } from '../api/object.ts'
import type { SnapshotStatus, SnapshotVolume } from '../api/snapshot.ts'
import type { VirtualMachineStatus } from '../api/virtual-machine.ts'
import { storedVm } from '../test/stored-vm.ts'
import { planSnapshot, refusedToCreate, type ObservedSnapshot, type SnapshotAction } from './snapshot-plan.ts'
import type { VolumeSnapshot } from './volume-snapshot.ts'

const now = '2030-01-01T00:10:00Z'
const earlier = '2030-01-01T00:09:59Z'
const uid = 's-1'
const condition = (type: string, status: 'True' | 'False', reason: string, message = '') => ({
  type,
  status,
  reason,
  message,
  observedGeneration: 1,
  lastTransitionTime: now,
})
const agent = condition('AgentConnected', 'True', 'AgentConnected')
const volumes = [
  { name: 'root', persistentVolumeClaim: { claimName: 'root-web' } },
  { name: 'seed', cloudInit: { userData: '' } },
  { name: 'data', persistentVolumeClaim: { claimName: 'data-web' } },
]
const recorded = [
  { name: 'root', claimName: 'root-web', volumeSnapshotName: 'nightly-root' },
  { name: 'data', claimName: 'data-web', volumeSnapshotName: 'nightly-data' },
]
const vmUID = storedVm().metadata.uid
/** As `begin` leaves it, if the guest is to be frozen. */
const begun: SnapshotStatus = {
  sourceUID: vmUID,
  volumes: recorded,
  excludedVolumes: ['seed'],
  observedGeneration: 1,
  phase: 'InProgress',
  conditions: [condition('Ready', 'False', 'InProgress', 'the snapshot is being taken')],
}

const vmWith = (status: VirtualMachineStatus, metadata: object = {}) =>
  storedVm({ spec: { domain: {}, volumes }, status, metadata: { name: 'web', ...metadata } })
const running = (status: VirtualMachineStatus = {}) => vmWith({ phase: 'Running', conditions: [agent], ...status })

function observed(
  status: SnapshotStatus | undefined,
  vm: ReturnType<typeof vmWith> = running(),
  more: Partial<ObservedSnapshot> = {},
): ObservedSnapshot {
  return {
    snapshot: {
      apiVersion,
      kind: 'VirtualMachineSnapshot',
      metadata: { name: 'nightly', namespace: 'default', uid, resourceVersion: '1', generation: 1 },
      spec: { source: { name: 'web' } },
      ...(status === undefined ? {} : { status }),
    },
    source: { vm, uid: vm.metadata.uid, volumes: vm.spec.volumes ?? [] },
    earlier: undefined,
    unfilledClaim: undefined,
    volumeSnapshots: new Map(),
    sinceMs: 1000,
    leavingMs: 0,
    isSupported: true,
    now,
    ...more,
  }
}

type Shown = [string, ...unknown[]]
/** A short form of the actions. */
const shown = (actions: readonly SnapshotAction[]): Shown[] =>
  actions.map((action): Shown => {
    switch (action.do) {
      case 'updateStatus': {
        const { phase, conditions = [] } = action.status
        const { unfrozenVolumes = [] } = action.status
        const unfrozen = unfrozenVolumes.length === 0 ? [] : [`unfrozen: ${unfrozenVolumes.join(', ')}`]
        return [
          'status',
          phase,
          ...unfrozen,
          ...conditions.map(({ type, status, reason }) => `${type}=${status} ${reason}`),
        ]
      }
      case 'recordEvent':
        return ['event', action.reason]
      case 'createVolumeSnapshot':
        return ['create', action.volume.volumeSnapshotName]
      case 'requestFreeze':
        return ['request', action.freeze]
      case 'requeueAfter':
        return ['again', action.afterMs]
    }
  })
const planned = (...given: Parameters<typeof observed>) => shown(planSnapshot(observed(...given)))

function taken(
  status: VolumeSnapshot['status'] = {},
  volumes: readonly SnapshotVolume[] = recorded,
): ObservedSnapshot['volumeSnapshots'] {
  return new Map(
    volumes.map(({ claimName, volumeSnapshotName: name }) => [
      name,
      {
        metadata: {
          name,
          uid: name,
          resourceVersion: '1',
          ownerReferences: [{ apiVersion, kind: 'VirtualMachineSnapshot', name: 'nightly', uid }],
        },
        spec: { source: { persistentVolumeClaimName: claimName } },
        status,
      },
    ]),
  )
}

describe('the source', () => {
  test.each<[string, ReturnType<typeof vmWith>, Shown]>([
    ['is to be frozen', running(), ['status', 'InProgress', 'Ready=False InProgress']],
    [
      'has ended',
      vmWith({ phase: 'Succeeded' }),
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=True NotRunning'],
    ],
    ...(['NodeLost', 'PodLost', 'OOMKilled', 'Evicted', 'Crashed'] as const).map(
      (reason): [string, ReturnType<typeof vmWith>, Shown] => [
        `has failed (${reason})`,
        vmWith({ phase: 'Failed', reason }),
        ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False NotPoweredOff'],
      ],
    ),
    [
      'was ended after its grace period',
      vmWith({ phase: 'Succeeded', reason: 'Destroyed' }, { deletionTimestamp: now }),
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False NotPoweredOff'],
    ],
    [
      'has powered off, and is deleted',
      vmWith({ phase: 'Succeeded', reason: 'Shutdown' }, { deletionTimestamp: now }),
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=True NotRunning'],
    ],
    [
      'has no agent',
      vmWith({ phase: 'Running' }),
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False NoAgent'],
    ],
    [
      'has an agent that does not answer',
      vmWith({ phase: 'Running', conditions: [condition('AgentConnected', 'False', 'AgentUnresponsive')] }),
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False AgentUnresponsive'],
    ],
    [
      'is on a node that does not respond',
      vmWith({ phase: 'Unknown', conditions: [agent] }),
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False NodeUnreachable'],
    ],
    [
      'is shutting down',
      vmWith({ phase: 'Running', conditions: [agent] }, { deletionTimestamp: now }),
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False ShuttingDown'],
    ],
  ])('%s', (_, vm, status) => {
    expect(planned(undefined, vm)).toEqual([status, ['again', 0]])
  })

  test('its volumes are recorded before anything is requested', () => {
    const [first] = planSnapshot(observed(undefined))
    const conditions = [condition('Ready', 'False', 'InProgress', 'the snapshot is being taken')]
    expect(first).toEqual({ do: 'updateStatus', status: { ...begun, conditions } })
  })

  test('without a VM, the claims of a config are taken as they are', () => {
    const source = { uid: 'c-1', volumes }
    expect(planned(undefined, running(), { source })).toEqual([
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=True NotRunning'],
      ['again', 0],
    ])
  })

  test.each<[string, string, Partial<ObservedSnapshot>]>([
    ['does not exist', 'SourceNotFound', { source: undefined }],
    ['has another snapshot in progress', 'OtherSnapshot', { earlier: 'hourly' }],
    ['has a claim that is not filled', 'ClaimNotFilled', { unfilledClaim: 'root-web' }],
  ])('%s: the snapshot waits', (_, reason, more) => {
    expect(planned(undefined, running(), more)).toEqual([
      ['status', 'Pending', `Ready=False ${reason}`],
      ['again', 5000],
    ])
  })

  test.each(['Pending', 'Scheduling', 'Scheduled'] as const)('is %s: its claims may not be filled yet', (phase) => {
    expect(planned(undefined, vmWith({ phase }))).toEqual([
      ['status', 'Pending', 'Ready=False SourceStarting'],
      ['again', 5000],
    ])
  })

  test('has no claims: the snapshot fails', () => {
    const vm = storedVm({ status: { phase: 'Running' } })
    expect(planned(undefined, vm)).toEqual([
      ['status', 'Failed', 'Ready=False NoClaims'],
      ['event', 'NoClaims'],
    ])
  })

  test('has a volume whose name is too long together with that of the snapshot', () => {
    const given = observed(undefined)
    const { metadata } = given.snapshot
    const snapshot = { ...given.snapshot, metadata: { ...metadata, name: 'n'.repeat(250) } }
    expect(shown(planSnapshot({ ...given, snapshot }))).toEqual([
      ['status', 'Failed', 'Ready=False NameTooLong'],
      ['event', 'NameTooLong'],
    ])
  })
})

test('a cluster without VolumeSnapshots is reported once, and looked at again', () => {
  const more = { isSupported: false }
  expect(planned(undefined, running(), more)).toEqual([
    ['status', 'Pending', 'Ready=False VolumeSnapshotsUnsupported'],
    ['event', 'VolumeSnapshotsUnsupported'],
    ['again', 60_000],
  ])
  const [first] = planSnapshot(observed(undefined, running(), more))
  const status = first?.do === 'updateStatus' ? first.status : undefined
  expect(planned(status, running(), more)).toEqual([['again', 60_000]])
})

describe('freezing', () => {
  test('is requested once, and awaited', () => {
    expect(planned(begun)).toEqual([
      ['request', { id: uid }],
      ['again', 500],
    ])
    expect(planned(begun, running({ freeze: { id: uid } }))).toEqual([['again', 500]])
    expect(planned(begun, running({ freeze: { id: uid }, frozen: { id: uid, state: 'Freezing' } }))).toEqual([
      ['again', 500],
    ])
  })

  test('what another snapshot requested does not count', () => {
    const vm = running({ freeze: { id: 'old', thaw: true }, frozen: { id: 'old', state: 'Thawed' } })
    expect(planned(begun, vm)).toEqual([
      ['request', { id: uid }],
      ['again', 500],
    ])
  })

  test('once the guest is frozen, all VolumeSnapshots are created', () => {
    expect(planned(begun, running({ freeze: { id: uid }, frozen: { id: uid, state: 'Frozen' } }))).toEqual([
      ['create', 'nightly-root'],
      ['create', 'nightly-data'],
      ['again', 500],
    ])
  })

  const after = (quiesced: string): Shown[] => [
    ['status', 'InProgress', 'Ready=False InProgress', `Quiesced=False ${quiesced}`],
    ['create', 'nightly-root'],
    ['create', 'nightly-data'],
    ['again', 500],
  ]
  test.each<[string, string, SnapshotStatus, ReturnType<typeof vmWith>, number?]>([
    ['failed', 'FreezeFailed', begun, running({ frozen: { id: uid, state: 'Failed', message: 'no' } })],
    ['expired', 'FreezeExpired', begun, running({ frozen: { id: uid, state: 'Expired' } })],
    ['took too long', 'NoResponse', begun, running(), 45_000],
    ['came too late', 'GuestEnded', begun, vmWith({ phase: 'Succeeded' })],
    ['met another VM of this name', 'GuestEnded', { ...begun, sourceUID: 'other' }, running()],
  ])('%s: the snapshot is taken nevertheless', (_, reason, status, vm, sinceMs = 0) => {
    expect(planned(status, vm, { sinceMs }).slice(0, -1)).toEqual(after(reason).slice(0, -1))
  })

  test('the VM is gone: its claims remain', () => {
    expect(planned(begun, running(), { source: undefined })).toEqual(after('GuestEnded'))
  })
})

describe('the VolumeSnapshots', () => {
  const frozen = running({ freeze: { id: uid }, frozen: { id: uid, state: 'Frozen' } })
  const thawing = running({ freeze: { id: uid, thaw: true }, frozen: { id: uid, state: 'Thawing' } })
  const thawed = running({ freeze: { id: uid, thaw: true }, frozen: { id: uid, state: 'Thawed' } })
  const expired = running({ freeze: { id: uid, thaw: true }, frozen: { id: uid, state: 'Expired' } })
  const cut = { creationTime: earlier }
  const ready = { ...cut, readyToUse: true }

  test('are not taken yet: the guest stays frozen', () => {
    expect(planned(begun, frozen, { volumeSnapshots: taken() })).toEqual([['again', 500]])
  })

  test('are all taken: the guest is thawed', () => {
    expect(planned(begun, frozen, { volumeSnapshots: taken(cut) })).toEqual([
      ['request', { id: uid, thaw: true }],
      ['again', 500],
    ])
    expect(planned(begun, thawing, { volumeSnapshots: taken(cut) })).toEqual([['again', 500]])
  })

  test('are ready before the guest is known to be thawed: the snapshot is not ready', () => {
    expect(planned(begun, thawing, { volumeSnapshots: taken(ready) })).toEqual([['again', 500]])
  })

  test.each<[string, ReturnType<typeof vmWith>, string]>([
    ['until its end', thawed, 'Quiesced=True GuestFrozen'],
    ['not until its end', expired, 'Quiesced=False FreezeExpired'],
  ])('are ready, and the guest was frozen %s', (_, vm, quiesced) => {
    expect(planned(begun, vm, { volumeSnapshots: taken(ready) })).toEqual([
      ['status', 'Ready', 'Ready=True SnapshotReady', quiesced],
      ['event', 'SnapshotReady'],
    ])
  })

  const devices = (one: object) => ({ ...thawed, spec: { ...thawed.spec, domain: { devices: one } } })
  const persistentVolumeClaim = { claimName: 'data' }
  const withoutData = { ...thawed, spec: { ...thawed.spec, volumes: volumes.filter(({ name }) => name !== 'data') } }
  const attachedAs = (phase: 'Attaching' | 'Attached', vm = thawed) => ({
    ...vm,
    spec: { ...withoutData.spec, attachedVolumes: [{ name: 'data', persistentVolumeClaim }] },
    status: { ...vm.status, attachedVolumes: [{ name: 'data', claimName: 'data', phase }] },
  })
  const unfrozen = ['status', 'InProgress', 'unfrozen: data', 'Ready=False InProgress']
  const noted: SnapshotStatus = { ...begun, unfrozenVolumes: ['data'] }

  test('are not of a volume that the guest does not have yet: that is noted before it is frozen', () => {
    expect(planned(begun, attachedAs('Attaching', running()))).toEqual([
      unfrozen,
      ['request', { id: uid }],
      ['again', 500],
    ])
    expect(planned(noted, attachedAs('Attaching', running({ freeze: { id: uid } })))).toEqual([['again', 500]])
  })

  test('are not of a volume that was detached meanwhile: that is noted before they are created', () => {
    expect(planned(begun, { ...frozen, spec: withoutData.spec })).toEqual([
      unfrozen,
      ['create', 'nightly-root'],
      ['create', 'nightly-data'],
      ['again', 500],
    ])
  })

  test('are ready, and a volume that was attached only after the guest was frozen is named', () => {
    const volumeSnapshots = taken(ready)
    expect(planned(noted, attachedAs('Attached', frozen), { volumeSnapshots })).toEqual([
      ['request', { id: uid, thaw: true }],
      ['again', 500],
    ])
    expect(planned(noted, attachedAs('Attached'), { volumeSnapshots })).toEqual([
      ['status', 'Ready', 'unfrozen: data', 'Ready=True SnapshotReady', 'Quiesced=False PartlyFrozen'],
      ['event', 'SnapshotReady'],
    ])
  })

  test('are ready, and nothing is noted once it is known whether they are of a frozen guest', () => {
    const known = { ...begun, conditions: [condition('Quiesced', 'True', 'GuestFrozen')] }
    const [first] = planned(known, attachedAs('Attaching'), { volumeSnapshots: taken(ready) })
    expect(first).toEqual(['status', 'Ready', 'Quiesced=True GuestFrozen', 'Ready=True SnapshotReady'])
  })

  test('are ready, with that of an attached volume that the frozen guest has', () => {
    const [first] = planned(begun, attachedAs('Attached'), { volumeSnapshots: taken(ready) })
    expect(first?.at(-1)).toBe('Quiesced=True GuestFrozen')
  })

  const shared = devices({ filesystems: [{ type: 'volume', source: { volume: 'data' }, target: { dir: 'd' } }] })
  test.each<[string, ReturnType<typeof vmWith>]>([
    ['a shared file system', shared],
    ['a disk that other guests write', devices({ disks: [{ source: { volume: 'data' }, shareable: {} }] })],
    ['an attached volume that the guest does not have', attachedAs('Attaching')],
    ['a volume that was detached since the snapshot began', withoutData],
    ['a disk that is never flushed', devices({ disks: [{ source: { volume: 'data' }, driver: { cache: 'unsafe' } }] })],
  ])('are ready, and a frozen guest does not cover %s: the volume is named', (_, vm) => {
    const [first] = planSnapshot(observed(begun, vm, { volumeSnapshots: taken(ready) }))
    const status = first?.do === 'updateStatus' ? first.status : {}
    const message =
      'the guest was frozen, but that does not cover the volumes "data": they are as after a power failure'
    expect(status.conditions?.at(-1)).toEqual(condition('Quiesced', 'False', 'PartlyFrozen', message))
    const again = { volumeSnapshots: taken(ready, recorded.slice(1)) }
    expect(planned({ ...status, phase: 'InProgress' }, vm, again)[0]?.at(-1)).toBe('Quiesced=False FreezeExpired')
  })

  test('are ready, and the state of devices is as firmware writes it', () => {
    const vm = { ...thawed, spec: { ...thawed.spec, deviceStateVolume: 'data' } }
    const taking = planned(begun, vm, { volumeSnapshots: taken(ready) })
    expect(taking[0]?.at(-1)).toBe('Quiesced=True GuestFrozen')
  })

  test('are ready, and a shared file system that is not on a claim does not matter', () => {
    const vm = devices({ filesystems: [{ source: { volume: 'seed' } }] })
    expect(planned(begun, vm, { volumeSnapshots: taken(ready) })[0]?.at(-1)).toBe('Quiesced=True GuestFrozen')
  })

  test('are ready, and the launcher never stated whether the guest was frozen', () => {
    expect(planned(begun, thawing, { volumeSnapshots: taken(ready), sinceMs: 120_000 })[0]).toEqual([
      'status',
      'Ready',
      'Ready=True SnapshotReady',
      'Quiesced=False NoResponse',
    ])
  })

  test('are still uploaded', () => {
    expect(planned(begun, thawed, { volumeSnapshots: taken(cut) })).toEqual([
      ['status', 'InProgress', 'Ready=False Uploading', 'Quiesced=True GuestFrozen'],
      ['again', 5000],
    ])
  })

  test.each([
    [8, 5000],
    [17, 15_000],
    [256, 60_000],
  ])('of %d volumes are looked at again after %d ms', (count, afterMs) => {
    const many = Array.from({ length: count }, (_, index) => ({
      name: `v${index}`,
      claimName: `c${index}`,
      volumeSnapshotName: `s${index}`,
    }))
    const actions = planned({ ...begun, volumes: many }, thawed, { volumeSnapshots: taken(cut, many) })
    expect(actions.at(-1)).toEqual(['again', afterMs])
  })

  test('of a VM without an agent are ready', () => {
    const quiesced = condition('Quiesced', 'False', 'NoAgent')
    const status = { ...begun, conditions: [...(begun.conditions ?? []), quiesced] }
    expect(planned(status, vmWith({ phase: 'Running' }), { volumeSnapshots: taken(ready) })).toEqual([
      ['status', 'Ready', 'Ready=True SnapshotReady', 'Quiesced=False NoAgent'],
      ['event', 'SnapshotReady'],
    ])
  })

  test('fail: the cause is reported once', () => {
    const volumeSnapshots = taken({ error: { message: 'no space' } })
    expect(planned(begun, frozen, { volumeSnapshots })).toEqual([
      ['status', 'InProgress', 'Ready=False VolumeSnapshotFailed'],
      ['event', 'VolumeSnapshotFailed'],
      ['again', 5000],
    ])
    const status = { ...begun, conditions: [condition('Ready', 'False', 'VolumeSnapshotFailed')] }
    expect(planned(status, frozen, { volumeSnapshots }).map(([kind]) => kind)).toEqual(['status', 'again'])
  })

  test('are neither taken nor failed for two minutes: the storage is reported once, and waited for', () => {
    const late = { volumeSnapshots: taken(), sinceMs: 120_000 }
    expect(planned(begun, expired, late)).toEqual([
      ['status', 'InProgress', 'Ready=False StorageUnresponsive', 'Quiesced=False FreezeExpired'],
      ['event', 'StorageUnresponsive'],
      ['again', 12_000],
    ])
    const [first] = planSnapshot(observed(begun, expired, late))
    const status = first?.do === 'updateStatus' ? first.status : undefined
    expect(planned(status, expired, late)).toEqual([['again', 12_000]])
    // Another process of the controller continues.
    expect(planned(status, expired, { ...late, sinceMs: 0 })).toEqual([['again', 5000]])
    expect(planned(status, expired, { volumeSnapshots: taken(ready), sinceMs: 180_000 })[0]).toEqual([
      'status',
      'Ready',
      'Ready=True SnapshotReady',
      'Quiesced=False FreezeExpired',
    ])
  })

  test.each([
    ['of another claim', { persistentVolumeClaimName: 'evil' }],
    ['of existing content', {}],
  ])('%s are never used, whatever their owner', (_, source) => {
    const [[name, one] = []] = taken(ready)
    const volumeSnapshots = new Map(
      name === undefined || one === undefined ? [] : [[name, { ...one, spec: { source } }]],
    )
    expect(planned(begun, frozen, { volumeSnapshots })).toEqual([
      ['request', { id: uid, thaw: true }],
      ['status', 'Failed', 'Ready=False NameTaken'],
      ['event', 'NameTaken'],
    ])
  })

  const firstTaken = (metadata: object) => {
    const volumeSnapshots = taken(ready)
    const one = volumeSnapshots.get('nightly-root')
    if (one === undefined) throw new Error('it is taken')
    return { volumeSnapshots: new Map([['nightly-root', { ...one, metadata: { ...one.metadata, ...metadata } }]]) }
  }
  const owner = { apiVersion, kind: 'VirtualMachineSnapshot', name: 'nightly', uid: 's-0' }

  test.each([
    ['is being deleted', { deletionTimestamp: now, ownerReferences: [] }],
    ['of this snapshot is being deleted', { deletionTimestamp: now }],
    ['belongs to a deleted snapshot of this name', { ownerReferences: [owner] }],
  ])('wait while one of the name %s, which the condition states', (_, metadata) => {
    const more = { ...firstTaken(metadata), leavingMs: 599_999 }
    expect(planned(undefined, running(), more)).toEqual([
      ['status', 'Pending', 'Ready=False OldVolumeSnapshot'],
      ['again', 5000],
    ])
    expect(planned(begun, frozen, more)).toEqual([
      ['request', { id: uid, thaw: true }],
      ['status', 'InProgress', 'Ready=False OldVolumeSnapshot'],
      ['again', 5000],
    ])
  })

  const advice = 'after 10 minutes: use another name for the snapshot'

  test.each([
    [
      'is being deleted',
      { deletionTimestamp: now, finalizers: ['a/b', 'a/c'], ownerReferences: [] },
      `the VolumeSnapshot nightly-root is still being deleted (held by a/b, a/c), ${advice}`,
    ],
    [
      'of this snapshot is being deleted',
      { deletionTimestamp: now, finalizers: ['a/b'] },
      `the VolumeSnapshot nightly-root is still being deleted (held by a/b), ${advice}`,
    ],
    [
      'belongs to a deleted snapshot of this name',
      { ownerReferences: [owner] },
      `the VolumeSnapshot nightly-root belongs to a deleted snapshot of this name, and is not deleted yet, ${advice}`,
    ],
  ])('fail after ten minutes in which one of the name %s, and say why', (_, metadata, message) => {
    const more = { ...firstTaken(metadata), leavingMs: 600_000 }
    const first = planSnapshot(observed(undefined, running(), more))
    expect(shown(first)).toEqual([
      ['status', 'Failed', 'Ready=False NameTaken'],
      ['event', 'NameTaken'],
    ])
    expect(first.at(-1)).toMatchObject({ message })
    expect(planned(begun, frozen, more)).toEqual([
      ['request', { id: uid, thaw: true }],
      ['status', 'Failed', 'Ready=False NameTaken'],
      ['event', 'NameTaken'],
    ])
  })

  test('of many volumes are looked at less often', () => {
    const many = Array.from({ length: 17 }, (_, index) => ({
      name: index === 0 ? 'root' : `v${index}`,
      persistentVolumeClaim: { claimName: `c${index}` },
    }))
    const vm = storedVm({ spec: { domain: {}, volumes: many }, status: { phase: 'Running' } })
    expect(planned(undefined, vm, firstTaken({ deletionTimestamp: now }))).toEqual([
      ['status', 'Pending', 'Ready=False OldVolumeSnapshot'],
      ['again', 15_000],
    ])
  })

  test.each([
    ['nobody', []],
    ['a snapshot of another name', [{ ...owner, name: 'weekly' }]],
    ['another kind', [{ ...owner, kind: 'VirtualMachine' }]],
    ['another group', [{ ...owner, apiVersion: 'example.com/v1' }]],
  ])('that belong to %s are never used', (_, ownerReferences) => {
    expect(planned(begun, frozen, firstTaken({ ownerReferences }))).toEqual([
      ['request', { id: uid, thaw: true }],
      ['status', 'Failed', 'Ready=False NameTaken'],
      ['event', 'NameTaken'],
    ])
  })

  test('that exist before the guest is frozen are not of a frozen guest', () => {
    const asked = running({ freeze: { id: uid }, frozen: { id: uid, state: 'Freezing' } })
    expect(planned(begun, asked, { volumeSnapshots: taken(ready) })[0]).toEqual([
      'status',
      'Ready',
      'Ready=True SnapshotReady',
      'Quiesced=False TakenTooEarly',
    ])
    // The guest could be frozen, and thawed, before they are taken.
    expect(planned(begun, asked, { volumeSnapshots: taken({}) }).slice(0, 2)).toEqual([
      ['request', { id: uid, thaw: true }],
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False TakenTooEarly'],
    ])
  })

  test('are refused by the API server: the guest is thawed, and it is tried again', () => {
    expect(shown(refusedToCreate(observed(begun, frozen), 'exceeded quota'))).toEqual([
      ['request', { id: uid, thaw: true }],
      ['status', 'InProgress', 'Ready=False FailedCreate', 'Quiesced=False FreezeExpired'],
      ['event', 'FailedCreate'],
      ['again', 30_000],
    ])
  })

  const withQuiesced = (status: 'True' | 'False', reason: string): SnapshotStatus => ({
    ...begun,
    conditions: [...(begun.conditions ?? []), condition('Quiesced', status, reason)],
  })

  test.each<[string, SnapshotStatus, ReturnType<typeof vmWith>, string | undefined]>([
    ['could not be frozen', begun, running({ frozen: { id: uid, state: 'Failed' } }), 'FreezeFailed'],
    ['was taken without freezing', withQuiesced('False', 'NoAgent'), running(), undefined],
    ['was frozen for one that is deleted', withQuiesced('True', 'GuestFrozen'), thawed, 'FreezeExpired'],
  ])('are refused, and the guest %s: the reason remains', (_, status, vm, reason) => {
    const [first] = refusedToCreate(observed(status, vm), 'exceeded quota')
    const after = first?.do === 'updateStatus' ? first.status.conditions : []
    expect(after?.find(({ type }) => type === 'Quiesced')?.reason).toBe(reason ?? 'NoAgent')
  })

  test.each<[string, SnapshotStatus, ReturnType<typeof vmWith>]>([
    ['thaws', begun, thawing],
    ['was asked to thaw', begun, running({ freeze: { id: uid, thaw: true }, frozen: { id: uid, state: 'Frozen' } })],
    ['has thawed', begun, thawed],
    ['was frozen until its end', withQuiesced('True', 'GuestFrozen'), thawed],
  ])('are created when the guest %s: it is not said to be quiesced', (_, status, vm) => {
    expect(planned(status, vm, { volumeSnapshots: taken(ready, recorded.slice(1)) })).toEqual([
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False FreezeExpired'],
      ['create', 'nightly-root'],
      ['again', 500],
    ])
  })

  test('are created after the guest was started: it is not said to have been off', () => {
    expect(planned(withQuiesced('True', 'NotRunning'), running())).toEqual([
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False GuestStarted'],
      ['create', 'nightly-root'],
      ['create', 'nightly-data'],
      ['again', 500],
    ])
  })

  const offAt = (sourceUID: string): SnapshotStatus => ({ ...withQuiesced('True', 'NotRunning'), sourceUID })
  test.each<[string, string, ReturnType<typeof vmWith> | undefined, string]>([
    ['the VM has not changed', vmUID, vmWith({ phase: 'Succeeded' }), 'Quiesced=True NotRunning'],
    ['the config has no VM', 'c-1', undefined, 'Quiesced=True NotRunning'],
    ['a guest has started and powered off', 'c-1', vmWith({ phase: 'Succeeded' }), 'Quiesced=False GuestStarted'],
    ['a guest has started and crashed', 'c-1', vmWith({ phase: 'Failed' }), 'Quiesced=False GuestStarted'],
    ['the VM was replaced', 'before', vmWith({ phase: 'Succeeded' }), 'Quiesced=False GuestStarted'],
    ['the VM was deleted', 'before', undefined, 'Quiesced=False GuestStarted'],
  ])('are ready, and since the last look %s', (_, sourceUID, vm, quiesced) => {
    const source = { uid: vm?.metadata.uid ?? 'c-1', volumes, ...(vm === undefined ? {} : { vm }) }
    const volumeSnapshots = taken(ready)
    expect(planned(offAt(sourceUID), running(), { source, volumeSnapshots })[0]?.at(-1)).toBe(quiesced)
  })

  test('are not taken when the guest is started: that is recorded at once', () => {
    expect(planned(offAt('c-1'), running(), { volumeSnapshots: taken() })).toEqual([
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False GuestStarted'],
      ['again', 500],
    ])
  })

  test.each([
    ['seen to be taken', { creationTime: '2030-01-01T00:00:05Z' }, 'Quiesced=True NotRunning'],
    ['not', {}, 'Quiesced=False GuestStarted'],
  ])('were %s before the guest was started', (_, known, quiesced) => {
    const volumeSnapshots = taken({ creationTime: '2030-01-01T00:00:05Z', readyToUse: true })
    const status = { ...withQuiesced('True', 'NotRunning'), ...known }
    expect(planned(status, running(), { volumeSnapshots })).toEqual([
      ['status', 'Ready', 'Ready=True SnapshotReady', quiesced],
      ['event', 'SnapshotReady'],
    ])
  })

  test('are created without a frozen guest: it must not be frozen later', () => {
    const asked = running({ freeze: { id: uid }, frozen: { id: uid, state: 'Freezing' } })
    expect(planned(begun, asked, { sinceMs: 45_000 })).toEqual([
      ['request', { id: uid, thaw: true }],
      ['status', 'InProgress', 'Ready=False InProgress', 'Quiesced=False NoResponse'],
      ['create', 'nightly-root'],
      ['create', 'nightly-data'],
      ['again', 4500],
    ])
  })

  test('are ready, and the guest could not be thawed: the condition states why', () => {
    const vm = running({ freeze: { id: uid, thaw: true }, frozen: { id: uid, state: 'Thawing', message: 'no agent' } })
    const [first] = planSnapshot(observed(begun, vm, { volumeSnapshots: taken(ready), sinceMs: 120_000 }))
    const conditions = first?.do === 'updateStatus' ? first.status.conditions : []
    expect(conditions?.find(({ type }) => type === 'Quiesced')?.message).toContain(': no agent: ')
  })
})

test.each([
  [0, 500],
  [20_000, 2000],
  [3_600_000, 60_000],
])('after %d ms, it is looked at again after %d ms', (sinceMs, afterMs) => {
  const frozen = running({ freeze: { id: uid }, frozen: { id: uid, state: 'Frozen' } })
  expect(planned(begun, frozen, { volumeSnapshots: taken(), sinceMs }).at(-1)).toEqual(['again', afterMs])
})

test.each(['Ready', 'Failed'] as const)('nothing is done for a snapshot that is %s', (phase) => {
  expect(planned({ ...begun, phase })).toEqual([])
})
