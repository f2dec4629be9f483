import { beforeEach, expect, test } from 'vitest'
import { createLogger } from '../runtime/log.ts'
import type { VolumeRequest } from '../runtime/launcher-api.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import { AgentBusy, AttachedVolumes } from './attached-volumes.ts'
import type { DomainRef } from './libvirt/domain.ts'
import { ConnectionLost, LibvirtError } from './libvirt/errors.ts'

const dom: DomainRef = { name: 'vm', uuid: new Uint8Array(16), id: 1 }
const a: VolumeRequest = { name: 'a', claimName: 'claim-a', podUID: 'p1', dev: 'vdb', bus: 'virtio' }
const b: VolumeRequest = {
  ...a,
  name: 'b',
  claimName: 'claim-b',
  podUID: 'p2',
  dev: 'sda',
  bus: 'scsi',
  serial: 's',
  readOnly: true,
}

let clock: FakeClock
let volumes: AttachedVolumes
let log: string[]
/** Of the disks that were attached. */
let serials: string[]
/** What the guest has, by alias, as far as libvirt knows. */
let devices: Set<string>
/** What it has besides. */
let unknown: Set<string>
let sockets: Set<string>
let mounts: readonly string[] | undefined | Error
let answers: (Error | undefined)[]
/** Whether the guest releases what it is asked for. */
let releases: boolean

beforeEach(() => {
  clock = fakeClock()
  log = []
  serials = []
  devices = new Set()
  unknown = new Set()
  sockets = new Set(['p1', 'p2', 'p3'])
  mounts = undefined
  answers = []
  releases = true
  volumes = new AttachedVolumes({
    attach: async (_, xml) => {
      const alias = /<alias name='([^']+)'/.exec(xml)?.[1] ?? ''
      log.push(`attach ${alias}`)
      serials.push(/<serial>([^<]*)/.exec(xml)?.[1] ?? '')
      const answer = answers.shift()
      if (answer !== undefined) throw answer
      devices.add(alias)
    },
    detach: async (_, alias) => {
      log.push(`detach ${alias}`)
      const answer = answers.shift()
      if (answer !== undefined) throw answer
      if (releases) devices.delete(alias)
    },
    hasDevice: async (_, alias) => devices.has(alias),
    isInQemu: async (_, alias) => devices.has(alias) || unknown.has(alias),
    readMounts: async () => {
      if (mounts instanceof Error) throw mounts
      return mounts
    },
    sockets: {
      pathOf: (name) => `/${name}.sock`,
      connect: async (name, podUID) => {
        log.push(`connect ${name} to ${podUID}`)
        return sockets.has(podUID)
      },
      remove: async (name) => void log.push(`remove ${name}`),
      forget: async (podUID) => void sockets.delete(podUID),
    },
    clock,
    log: createLogger({ process: 'launcher', level: 'silent' }),
    onChange: () => {},
  })
})

/** What was done, and what is reported then. */
async function request(...wanted: readonly VolumeRequest[]): Promise<[string[], string[]]> {
  volumes.request(dom, wanted)
  await settle()
  return outcome()
}

const outcome = (): [string[], string[]] => [
  log.splice(0),
  (volumes.report.volumes ?? []).map(({ name, podUID, phase, reason = '' }) =>
    `${name} ${podUID} ${phase} ${reason}`.trim(),
  ),
]

async function later(ms: number): Promise<[string[], string[]]> {
  await clock.advance(ms)
  await settle()
  return outcome()
}

test('nothing is reported before a request', () => expect(volumes.report).toEqual({}))

test('volumes are attached and detached, each by itself', async () => {
  expect(await request(a)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
  expect(await request(a, b)).toEqual([
    ['connect b to p2', 'attach ua-attached-b'],
    ['a p1 Attached', 'b p2 Attached'],
  ])
  expect(await request(b)).toEqual([['detach ua-attached-a', 'remove a'], ['b p2 Attached']])
  expect(await request()).toEqual([['detach ua-attached-b', 'remove b'], []])
  expect(clock.pending()).toBe(0)
})

test('each disk has a serial number, which is its name if that is short', async () => {
  await request(a, b, { ...a, name: 'n'.repeat(21), podUID: 'p1', dev: 'vdc' })
  expect(serials).toEqual(['a', 's', expect.stringMatching(/^[0-9a-f]{20}$/)])
})

test('a volume is attached once the socket of its pod is there', async () => {
  sockets.clear()
  expect(await request(a)).toEqual([['connect a to p1'], ['a p1 Attaching']])
  sockets.add('p1')
  expect(await later(1000)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
})

test('QEMU connects to another pod that serves the same claim', async () => {
  await request(a)
  expect(await request({ ...a, podUID: 'p3' })).toEqual([['connect a to p3'], ['a p3 Attached']])
  expect([...sockets]).toEqual(['p2', 'p3'])
})

test.each<[string, VolumeRequest]>([
  ['claim', { ...a, claimName: 'other', podUID: 'p3' }],
  ['target', { ...a, dev: 'vdc' }],
  ['mode', { ...a, readOnly: true }],
])('a volume with another %s is another disk', async (_, other) => {
  await request(a)
  const { podUID } = other
  expect(await request(other)).toEqual([
    ['detach ua-attached-a', 'remove a', `connect a to ${podUID}`, 'attach ua-attached-a'],
    [`a ${podUID} Attached`],
  ])
})

test('what libvirt refuses to attach is reported, and tried less and less often', async () => {
  const refused = new LibvirtError('No more available PCI slots', 1, 10)
  answers = [refused, refused]
  expect(await request(a)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Failed AttachRefused']])
  expect(volumes.report.volumes?.[0]?.message).toBe('No more available PCI slots')
  expect(await later(1000)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Failed AttachRefused']])
  expect(await later(1999)).toEqual([[], ['a p1 Failed AttachRefused']])
  expect(await later(1)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
})

test('what libvirt refused is forgotten when it is not requested any more', async () => {
  answers = [new LibvirtError('no', 1, 10)]
  await request(a)
  expect(await request()).toEqual([[], []])
})

test('an attempt whose outcome was lost is not repeated', async () => {
  answers = [new ConnectionLost('libvirtd ended')]
  expect(await request(a)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attaching']])
  devices.add('ua-attached-a')
  expect(await later(1000)).toEqual([['connect a to p1'], ['a p1 Attached']])
})

test('a volume whose attempt was lost is detached when it is not requested any more, or is another one', async () => {
  answers = [new ConnectionLost('libvirtd ended')]
  await request(a)
  devices.add('ua-attached-a')
  expect(await request()).toEqual([['detach ua-attached-a', 'remove a'], []])

  answers = [new ConnectionLost('libvirtd ended')]
  await request(a)
  devices.add('ua-attached-a')
  expect(await request({ ...a, claimName: 'other', podUID: 'p3' })).toEqual([
    ['detach ua-attached-a', 'remove a', 'connect a to p3', 'attach ua-attached-a'],
    ['a p3 Attached'],
  ])
})

test('a volume of which libvirt does not know, because it ended, is neither attached again nor released', async () => {
  answers = [new ConnectionLost('libvirtd ended')]
  await request(a)
  unknown.add('ua-attached-a')
  expect(await later(1000)).toEqual([['connect a to p1'], ['a p1 Attached']])
  expect(await request()).toEqual([[], ['a p1 Detaching GuestHoldsVolume']])
  unknown.clear()
  expect(await later(1000)).toEqual([['remove a'], []])
})

test('a volume of which libvirt does not know is attached again once the guest has released it', async () => {
  answers = [new ConnectionLost('libvirtd ended')]
  await request(a)
  unknown.add('ua-attached-a')
  expect(await later(1000)).toEqual([['connect a to p1'], ['a p1 Attached']])
  expect(await later(2000)).toEqual([['connect a to p1'], ['a p1 Attached']])
  unknown.clear()
  expect(await later(4000)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
  expect([await later(60_000), clock.pending()]).toEqual([[[], ['a p1 Attached']], 0])
})

test('a volume that the guest has released, and that libvirt refuses to attach again, is not reported as attached', async () => {
  answers = [new ConnectionLost('libvirtd ended')]
  await request(a)
  unknown.add('ua-attached-a')
  expect(await later(1000)).toEqual([['connect a to p1'], ['a p1 Attached']])
  unknown.clear()
  answers = [new LibvirtError('no', 1, 10)]
  expect(await later(2000)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attaching AttachRefused']])
})

test('a volume that was not attached is, even if it was not requested meanwhile', async () => {
  mounts = ['/data']
  answers = [new ConnectionLost('libvirtd ended')]
  await request(a)
  expect(await request()).toEqual([[], ['a p1 Detaching VolumeInUse']])
  expect(await request(a)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
})

test('a volume that was not attached, because libvirtd ended before, is attached', async () => {
  answers = [new ConnectionLost('libvirtd ended'), new LibvirtError('no', 1, 10)]
  await request(a)
  await later(1000)
  expect(await later(2000)).toEqual([['connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
  devices.clear()
  unknown.add('ua-attached-a')
  expect(await request()).toEqual([['remove a'], []])
})

test.each([
  ["lun already used by 'ua-attached-b'", true],
  ['PCI: slot 5 function 0 not available for virtio-blk-pci, in use by virtio-blk-pci,id=ua-attached-b', true],
  ["lun already used by 'ua-attached-b2'", false],
  ['No more available PCI slots', false],
])(
  'a volume that QEMU refuses with %j is explained by one whose attempt was lost: %s',
  async (message, isExplained) => {
    answers = [new ConnectionLost('libvirtd ended')]
    unknown.add('ua-attached-b')
    await request(b)
    answers = [new LibvirtError(message, 1, 10)]
    await request(b, a)
    const explanation =
      '; libvirtd ended while volume "b" was attached, and gives out its address again: others can be attached there after the next start of the VM'
    expect(volumes.report.volumes?.find(({ name }) => name === 'a')).toMatchObject({
      reason: 'AttachRefused',
      message: isExplained ? message + explanation : message,
    })
  },
)

test('a volume that the guest may release, because the answer was lost, is attached again once it has', async () => {
  await request(a)
  answers = [new ConnectionLost('libvirtd ended')]
  await request()
  devices.clear()
  expect(await request(a)).toEqual([['remove a', 'connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
})

test('a mounted volume is detached once it is unmounted', async () => {
  await request(a)
  mounts = ['/mnt', '/srv']
  expect(await request()).toEqual([[], ['a p1 Detaching VolumeInUse']])
  expect(volumes.report.volumes?.[0]?.message).toBe(
    'the guest has mounted it at /mnt, /srv; it is detached once it is unmounted',
  )
  expect(await request(a)).toEqual([[], ['a p1 Attached']])
  await request()
  mounts = []
  expect(await later(1000)).toEqual([['detach ua-attached-a', 'remove a'], []])
})

test('a guest whose agent does not answer keeps its volume', async () => {
  await request(a)
  mounts = new AgentBusy('the guest is frozen for a snapshot')
  expect(await request()).toEqual([[], ['a p1 Detaching VolumeInUse']])
})

test('a guest can release a volume late, and gets it again only then', async () => {
  await request(a)
  releases = false
  expect(await request()).toEqual([['detach ua-attached-a'], ['a p1 Detaching GuestHoldsVolume']])
  expect(await request(a)).toEqual([['detach ua-attached-a'], ['a p1 Detaching GuestHoldsVolume']])
  devices.clear()
  expect(await later(1000)).toEqual([['remove a', 'connect a to p1', 'attach ua-attached-a'], ['a p1 Attached']])
})

test('a volume that is requested again while the guest releases it is attached by the same pod', async () => {
  await request(a)
  releases = false
  await request()
  await request(a)
  devices.clear()
  await later(1000)
  expect([volumes.report.volumes?.[0]?.phase, sockets.has('p1')]).toEqual(['Attached', true])
})

test('a volume whose pod cannot be reached delays no other', async () => {
  answers = [new ConnectionLost('libvirtd ended')]
  expect((await request(a, b))[1]).toEqual(['a p1 Attaching', 'b p2 Attached'])
})

test('what libvirt refuses to detach is reported, and tried again', async () => {
  await request(a)
  answers = [new LibvirtError('busy', 1, 10)]
  expect(await request()).toEqual([['detach ua-attached-a'], ['a p1 Detaching DetachRefused']])
  expect(await later(1000)).toEqual([['detach ua-attached-a', 'remove a'], []])
})
