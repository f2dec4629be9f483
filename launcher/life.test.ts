import { ChildProcess } from 'node:child_process'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { writeDisk } from '../api/domain/xml.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { parseDomainReport, type DomainReport, type SpecDrift } from '../runtime/launcher-api.ts'
import { createLogger } from '../runtime/log.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import { type FakeLibvirtd, fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { until } from '../test/until.ts'
import { keepLibvirtd } from './libvirtd.ts'
import { GuestFreeze } from './freeze.ts'
import { GuestAgent } from './guest-agent.ts'
import { Life, finalHoldMs } from './life.ts'
import { freezeGuest, thawGuest } from './libvirt/freeze.ts'
import { askAgent } from './libvirt/guest-info.ts'
import { Client } from './libvirt/client.ts'
import { changeMedium } from './libvirt/domain.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { noAttachedVolumes } from '../test/no-attached-volumes.ts'
import { Media } from './media.ts'
import { Refused } from './refused.ts'

let fake: FakeLibvirtd
let clock: FakeClock
let client: Client
let life: Life
let reports: DomainReport[]
let drift: SpecDrift[]
/** When QEMU has started and the guest does not run yet. */
let onPrepared: () => Promise<void>
/** How often QEMU was started, and its guest, when TPMs were begun and finished. */
let tpms: string[]
let exit: string | undefined
let prepareFailure: Error | undefined
let oomKills: () => number
/** The target of a disk without room. */
let fullDisk: string | undefined
/** How often disks could grow. */
let growths: number
let lost: readonly string[]
/** When libvirtd was started, by the monotonic clock. */
let startedAtMs: number[]

beforeEach(() => {
  lost = []
  fake = fakeLibvirtd()
  clock = fakeClock()
  reports = []
  drift = []
  onPrepared = async () => {}
  tpms = []
  exit = undefined
  prepareFailure = undefined
  oomKills = () => 0
  fullDisk = undefined
  growths = 0
  startedAtMs = []
  makeLife()
})

afterEach(() => {
  client.close()
  const unknown = reports.filter((report) => parseDomainReport(report).reason !== report.reason)
  if (unknown.length > 0) throw new Error(`handlers replace reasons that they do not know: ${JSON.stringify(unknown)}`)
})

function makeLife(vmUID?: string): void {
  client?.close()
  const log = createLogger({ process: 'launcher', level: 'silent' })
  const daemon = keepLibvirtd({ clock, log, spawn: spawnFake })
  client = new Client({
    dial: () => fake.dial(),
    uri: 'qemu:///session',
    clock,
    onHint: (event) => life.hint(event),
    onHung: () => daemon.endHung(),
  })
  life = new Life({
    client,
    clock,
    log,
    ...(vmUID === undefined ? {} : { vmUID }),
    agent: new GuestAgent({
      ask: (dom, questions) => client.apart((connection) => askAgent(connection, dom, questions)),
      isFrozen: () => false,
      clock,
      log,
      random: () => 0.5,
      onChange: () => life.hint(),
    }),
    guestFreeze: new GuestFreeze({
      freeze: (dom) => client.apart((connection) => freezeGuest(connection, dom)),
      thaw: (dom) => client.apart((connection) => thawGuest(connection, dom)),
      clock,
      log,
      onChange: () => life.hint(),
    }),
    onPrepared: () => onPrepared(),
    beginTpms: async () => void tpms.push(`begun ${starts()}`),
    finishTpms: async () => void tpms.push(`finished ${starts()}`),
    hasRoom: async (targets) => !targets.includes(fullDisk ?? ''),
    renderDisks: ({ domain }) => domain.devices?.disks ?? [],
    attachedVolumes: noAttachedVolumes,
    media: new Media({
      update: (dom, drive) => changeMedium(client, dom, writeDisk(drive)),
      isOpen: async () => false,
      clock,
      log,
      onChange: () => life.hint(),
    }),
    readLostFilesystems: async () => lost,
    growDisks: async () => void (growths += 1),
    readMemoryUse: async () => ({ oomKills: oomKills(), limitBytes: 2 ** 27, peakBytes: 2 ** 27 }),
    prepare: async (spec) => {
      if (prepareFailure !== undefined) throw prepareFailure
      return spec.domain
    },
    writeXml: ({ name, title }) => `<domain><name>${name}</name><title>${title}</title></domain>`,
    readXml: (xml) => ({ xml }),
    compare: () => drift,
  })
  life.subscribe((report) => reports.push(report))
  life.ended.then((ended) => (exit = ended)).catch(() => {})
  client.start()
}

/** The process of the fake, which ends only by SIGKILL; the next one accepts connections again. */
function spawnFake(): ChildProcess {
  if (startedAtMs.push(clock.monotonic()) > 1) fake.restart()
  const child = new ChildProcess()
  child.kill = (signal) => {
    if (signal !== 'SIGKILL') return false
    fake.restart(Infinity)
    return child.emit('exit', null, signal)
  }
  return child
}

/** A VM whose guest behaves as the fake does by this word. */
function vm(guest: 'idle' | 'powerOff' | 'obedient', uid = 'u-1', graceSeconds?: number): VirtualMachine {
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'testvm', uid },
    spec: {
      domain: { name: 'testvm', title: guest },
      ...(graceSeconds === undefined ? {} : { terminationGracePeriodSeconds: graceSeconds }),
    },
  }
}

/** Hands it the VM, and reads the report once libvirt has processed it. */
async function start(vm: VirtualMachine): Promise<DomainReport> {
  life.accept(vm)
  return until(async () => {
    const report = await life.report()
    return report.phase !== 'Defined' && report
  })
}

const standings = () =>
  reports.map(({ phase, reason, exit: ended }) => [phase, reason, ended].filter(Boolean).join(' '))
const count = (procedure: string) => fake.calls.filter((call) => call === procedure).length

const starts = () => `${count('domain_create_with_flags')}/${count('domain_resume')}`

/** The error of a promise. Allows it to reject while the test awaits something else. */
const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('a VM', () => {
  test('is awaited', async () => {
    expect(await life.report()).toMatchObject({ vmUID: '', phase: 'Waiting' })
  })

  test('is defined, started and reported', async () => {
    const report = await start(vm('idle'))
    expect(report).toEqual({
      version: 7,
      generation: 1,
      vmUID: 'u-1',
      phase: 'Running',
      reason: 'unpaused',
      domain: { xml: '<domain><name>testvm</name><title>idle</title></domain>' },
      specDrift: [],
      observedAt: '2030-01-01T00:00:00.000Z',
    })
    expect(reports.at(-1)).toEqual(report)
  })

  test('that arrives again is started once', async () => {
    life.accept(vm('idle'))
    life.accept(vm('idle'))
    await start(vm('idle'))
    expect([count('domain_define_xml_flags'), count('domain_create_with_flags')]).toEqual([1, 1])
  })

  test('is the only VM of its launcher', async () => {
    await start(vm('idle'))
    expect(() => life.accept(vm('idle', 'u-2'))).toThrow('this launcher belongs to the VirtualMachine with uid u-1')
  })

  test('is the one that the launcher was created for', async () => {
    makeLife('u-2')
    expect(() => life.accept(vm('idle'))).toThrow('this launcher belongs to the VirtualMachine with uid u-2')
    expect(await start(vm('idle', 'u-2'))).toMatchObject({ phase: 'Running' })
  })

  test('that libvirt changed has the changed fields in its report', async () => {
    drift = [{ field: 'spec.domain.memory', spec: 1, libvirt: 2 }]
    expect((await start(vm('idle'))).specDrift).toEqual(drift)
  })

  test.each(['domain_create_with_flags', 'domain_resume'])(
    'whose %s libvirtd did not confirm reports its generation',
    async (procedure) => {
      fake.breakAfterNext(procedure)
      life.accept(vm('idle'))
      await clock.advance(60_000)
      await settle()
      expect(await life.report()).toMatchObject({ phase: 'Running', generation: 1 })
      expect([count('domain_create_with_flags'), count('domain_resume')]).toEqual([1, 1])
    },
  )

  test('whose QEMU starts for longer than the call is resumed when it has started', async () => {
    const finish = fake.startSlowly()
    life.accept(vm('idle'))
    await clock.advance(200_000)
    await settle()
    expect(await life.report()).toMatchObject({ phase: 'Defined', message: 'QEMU is still starting' })
    finish()
    await clock.advance(2000)
    await settle()
    expect(await life.report()).toMatchObject({ phase: 'Running' })
    expect([count('domain_create_with_flags'), count('domain_resume')]).toEqual([1, 1])
  })

  test('does not run before its console is open', async () => {
    const console = Promise.withResolvers<void>()
    onPrepared = () => console.promise
    life.accept(vm('idle'))
    await settle()
    await settle()
    expect([count('domain_create_with_flags'), count('domain_resume')]).toEqual([1, 0])
    expect(await life.report()).toMatchObject({ phase: 'Defined', reason: 'starting' })
    console.resolve()
    await settle()
    expect(await life.report()).toMatchObject({ phase: 'Running' })
  })

  test.each<[string, () => void, string[]]>([
    ['starts', () => {}, ['begun 0/0', 'finished 1/0']],
    [
      'is refused',
      () => fake.refuseNext('domain_create_with_flags', new LibvirtError('no', 1, 10)),
      ['begun 0/0', 'finished 1/0'],
    ],
    ['is not confirmed', () => fake.breakAfterNext('domain_create_with_flags'), ['begun 0/0', 'finished 1/0']],
  ])(
    'has whole TPMs before its guest runs, once libvirtd has responded, if its start %s',
    async (_, arrange, steps) => {
      arrange()
      life.accept(vm('idle'))
      await clock.advance(60_000)
      await settle()
      expect(tpms).toEqual(steps)
    },
  )

  test('whose QEMU ends before the guest runs reports that', async () => {
    onPrepared = async () => fake.killGuests({ hasEvent: false })
    await start(vm('idle'))
    await settle()
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
  })

  test('whose report did not change is reported once', async () => {
    await start(vm('idle'))
    await settle()
    const before = reports.length
    life.hint()
    life.hint()
    await settle()
    expect(reports).toHaveLength(before)
  })
})

test('a hundred concurrent requests cause two reads', async () => {
  await start(vm('idle'))
  await settle()
  const before = count('domain_get_state')
  const reports = await Promise.all(Array.from({ length: 100 }, () => life.report()))
  expect(new Set(reports.map(({ phase }) => phase))).toEqual(new Set(['Running']))
  expect(count('domain_get_state') - before).toBe(2)
})

describe('the end', () => {
  test('of a guest that powers itself off is a success, and remains until it was read', async () => {
    await start(vm('powerOff'))
    await settle()
    expect(standings().at(-1)).toBe('Shutoff shutdown Succeeded')
    await clock.advance(finalHoldMs - 1)
    expect(exit).toBe(undefined)
    life.final()
    await settle()
    expect(exit).toBe('Succeeded')
  })

  test('remains for at most 15 s', async () => {
    await start(vm('powerOff'))
    await settle()
    await clock.advance(finalHoldMs)
    expect(exit).toBe('Succeeded')
  })

  test('of a QEMU that was killed is a failure, and is not followed by a start', async () => {
    await start(vm('idle'))
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
    await start(vm('idle'))
    expect(count('domain_create_with_flags')).toBe(1)
  })

  test('cannot be confirmed in advance', async () => {
    await start(vm('idle'))
    life.final()
    await clock.advance(60_000)
    expect(exit).toBe(undefined)
  })
})

test('disks of a running guest can grow, those of a paused guest later', async () => {
  await start(vm('idle'))
  await clock.advance(20_000)
  expect(growths).toBe(2)
  fake.pauseGuests([{ disk: 'vda', error: 1 }])
  await settle()
  await clock.advance(20_000)
  expect(growths).toBe(2)
})

describe('a disk without space', () => {
  const paused = async (...errors: { disk: string; error: number }[]) => {
    await start(vm('idle'))
    fake.pauseGuests(errors)
    await settle()
  }

  test('pauses the guest, and is reported', async () => {
    fullDisk = 'vda'
    await paused({ disk: 'vda', error: 2 })
    expect(await life.report()).toMatchObject({
      phase: 'Paused',
      reason: 'ioerror',
      message: 'the guest is paused: disk vda has no space left; it continues when there is space',
    })
    await clock.advance(60_000)
    expect(count('domain_resume')).toBe(1)
  })

  test('resumes the guest when there is space, once', async () => {
    fullDisk = 'vda'
    await paused({ disk: 'vda', error: 2 })
    fullDisk = undefined
    await clock.advance(10_000)
    expect(await life.report()).toMatchObject({ phase: 'Running' })
    await clock.advance(60_000)
    expect(count('domain_resume')).toBe(2)
  })

  test('does not resume a guest with another error', async () => {
    await paused({ disk: 'vda', error: 2 }, { disk: 'vdb', error: 1 })
    await clock.advance(60_000)
    expect(count('domain_resume')).toBe(1)
    expect((await life.report()).message).toContain('disk vdb has an I/O error')
  })

  test('is tried again when libvirt cannot resume the guest', async () => {
    await paused({ disk: 'vda', error: 2 })
    fake.refuseNext('domain_resume', new LibvirtError('busy', 55, 10))
    await clock.advance(10_000)
    expect((await life.report()).phase).toBe('Paused')
    await clock.advance(10_000)
    expect((await life.report()).phase).toBe('Running')
  })
})

describe('shutdown', () => {
  test('of a frozen guest thaws it first', async () => {
    await start(vm('idle'))
    life.freeze('s-1')
    await settle()
    expect((await life.report()).frozen).toEqual({ id: 's-1', state: 'Frozen' })
    life.shutdown(30)
    await settle()
    expect([count('domain_fsthaw'), (await life.report()).frozen?.state]).toEqual([1, 'Expired'])
  })

  test('of a guest that powers off is a success', async () => {
    await start(vm('obedient'))
    life.shutdown(30)
    await settle()
    expect(standings().at(-1)).toBe('Shutoff shutdown Succeeded')
    await clock.advance(120_000)
    expect(count('domain_destroy_flags')).toBe(0)
  })

  test('of a guest that does not react presses the button every 5 s, and destroys it at the deadline', async () => {
    await start(vm('idle'))
    life.shutdown(30)
    expect(await life.report()).toMatchObject({ phase: 'ShuttingDown', deadline: '2030-01-01T00:00:30.000Z' })
    await clock.advance(29_999)
    expect([count('domain_shutdown_flags'), count('domain_destroy_flags')]).toEqual([6, 0])
    await clock.advance(1)
    expect(count('domain_destroy_flags')).toBe(1)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('that is requested again with a shorter grace period ends the guest earlier', async () => {
    await start(vm('idle'))
    life.shutdown(30)
    await clock.advance(1000)
    life.shutdown(2)
    const shortened = { deadline: '2030-01-01T00:00:03.000Z', gracePeriodSeconds: 2 }
    expect(await life.report()).toMatchObject(shortened)
    await clock.advance(1999)
    expect(count('domain_destroy_flags')).toBe(0)
    await clock.advance(1)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
    const presses = count('domain_shutdown_flags')
    await clock.advance(60_000)
    expect([count('domain_shutdown_flags'), count('domain_destroy_flags')]).toEqual([presses, 1])
  })

  test('keeps its grace period when the wall clock is set', async () => {
    await start(vm('idle'))
    life.shutdown(30)
    clock.setWallClock(clock.now() + 3_600_000)
    await clock.advance(29_999)
    expect(count('domain_destroy_flags')).toBe(0)
    await clock.advance(1)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('that is requested again with a longer grace period keeps the deadline', async () => {
    await start(vm('idle'))
    life.shutdown(30)
    await clock.advance(10_000)
    life.shutdown(3600)
    expect(await life.report()).toMatchObject({ deadline: '2030-01-01T00:00:30.000Z' })
    await clock.advance(20_000)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('that is requested twice at once begins once', async () => {
    await start(vm('idle'))
    life.shutdown(30)
    life.shutdown(30)
    await clock.advance(5000)
    expect(count('domain_shutdown_flags')).toBe(2)
  })

  test('responds without libvirt, and takes place once libvirtd is back', async () => {
    await start(vm('idle'))
    fake.restart(Infinity)
    await settle()
    life.shutdown(7)
    life.destroy()
    fake.restart()
    await clock.advance(20_000)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('without grace destroys at once', async () => {
    await start(vm('idle'))
    life.shutdown(0)
    await clock.advance(0)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('continues after the daemon restarted', async () => {
    await start(vm('idle'))
    life.shutdown(30)
    fake.restart(3)
    await clock.advance(40_000)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('without a VM is refused', () => {
    expect(() => life.shutdown(30)).toThrow('the launcher has no VirtualMachine yet')
    expect(() => life.destroy()).toThrow('the launcher has no VirtualMachine yet')
  })

  test.each([
    ['the VM’s own grace period', 7, 7000],
    ['30 s where it has none', undefined, 30_000],
  ])('by the kubelet takes %s', async (_, graceSeconds, deadlineMs) => {
    await start(vm('idle', 'u-1', graceSeconds))
    life.terminate()
    await clock.advance(deadlineMs - 1)
    expect(count('domain_destroy_flags')).toBe(0)
    await clock.advance(1)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
    expect(reports.at(-1)).toMatchObject({ isTerminated: true })
  })

  test('by the handler is not reported as a termination of the pod', async () => {
    await start(vm('idle'))
    life.shutdown(0)
    await clock.advance(1)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
    expect(reports.at(-1)).not.toHaveProperty('isTerminated')
  })

  test('by the kubelet before the launcher has a VM ends it at once', async () => {
    life.terminate()
    await settle()
    expect(exit).toBe('Failed')
  })

  test('by the kubelet after the end changes nothing', async () => {
    await start(vm('powerOff'))
    await settle()
    life.terminate()
    await clock.advance(finalHoldMs)
    expect(exit).toBe('Succeeded')
  })

  test('of a QEMU that does not end kills it', async () => {
    await start(vm('idle'))
    fake.refuseNext('domain_destroy_flags', new LibvirtError('Failed to terminate process 7 with SIGTERM', 38, 10))
    life.destroy()
    await settle()
    expect(count('domain_destroy_flags')).toBe(2)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })
})

describe('a VM that cannot run', () => {
  test.each([
    ['domain_define_xml_flags', 'Gone defineRefused Failed'],
    ['domain_create_with_flags', 'Shutoff startFailed Failed'],
  ])('since %s is refused ends, in libvirt’s words', async (procedure, standing) => {
    fake.refuseNext(procedure, new LibvirtError('unsupported configuration: no', 67, 10))
    expect((await start(vm('idle'))).message).toBe('unsupported configuration: no')
    expect(standings().at(-1)).toBe(standing)
    // Sending the VM again does not retry the start.
    await start(vm('idle'))
    expect(count(procedure)).toBe(1)
    life.final()
    await settle()
    expect(exit).toBe('Failed')
  })

  test('is reported with a message of the allowed length', async () => {
    fake.refuseNext('domain_create_with_flags', new LibvirtError('x'.repeat(100_000), 1, 10))
    await start(vm('idle'))
    expect(reports.at(-1)?.message).toHaveLength(65_536)
  })

  test('because of a missing volume also ends, with a reason that the handler knows', async () => {
    prepareFailure = new Refused('VolumeUnavailable', 'gone '.repeat(20_000))
    await start(vm('idle'))
    expect(standings().at(-1)).toBe('Gone volumeUnavailable Failed')
    expect(reports.at(-1)?.message).toHaveLength(65_536)
  })
})

describe('memory runs out', () => {
  test('while the guest runs', async () => {
    await start(vm('idle'))
    oomKills = () => 1
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff OOMKilled Failed')
    expect(reports.at(-1)?.message).toMatch(/^the kernel killed QEMU because memory ran out: .* limit of 128 MiB/)
  })

  test('while QEMU starts', async () => {
    fake.refuseNext('domain_create_with_flags', new LibvirtError('monitor socket closed', 1, 10))
    oomKills = () => count('domain_create_with_flags')
    await start(vm('idle'))
    await settle()
    expect(standings().at(-1)).toBe('Shutoff OOMKilled Failed')
  })

  test('before QEMU starts: a later crash is a crash', async () => {
    oomKills = () => 1
    await start(vm('idle'))
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
  })
})

test('a later generation of the VM has other media; an earlier one changes nothing', async () => {
  const drive = (generation: number, source?: object) => {
    const given = vm('idle')
    const disks = [{ type: 'file', device: 'cdrom', ...(source ? { source } : {}), target: { dev: 'sda' } }] as const
    return {
      ...given,
      metadata: { ...given.metadata, generation },
      spec: { domain: { ...given.spec.domain, devices: { disks } } },
    } as unknown as VirtualMachine
  }
  expect(await start(drive(4, { file: '/one' }))).toMatchObject({ phase: 'Running', generation: 4 })
  life.accept(drive(5, { file: '/two' }))
  life.accept(drive(5, { file: '/two' }))
  await settle()
  life.accept(drive(3, { file: '/one' }))
  await settle()
  expect(reports.at(-1)).toMatchObject({ phase: 'Running', generation: 5 })
  fake.refuseNext('domain_update_device_flags', new LibvirtError('the tray is locked', 1, 10))
  life.accept(drive(6))
  await settle()
  expect(reports.at(-1)).toMatchObject({ generation: 6, mediaFailure: 'sda: the tray is locked' })
  await clock.advance(15_000)
  await settle()
  expect(reports.at(-1)?.mediaFailure).toBeUndefined()
  expect(fake.media).toEqual(['<source file="/two"/>', 'empty'])
})

test('file systems that nothing serves any more are reported while the guest runs', async () => {
  const { lostFilesystems } = await start(vm('idle'))
  expect(lostFilesystems).toBeUndefined()
  lost = ['data']
  await clock.advance(10_000)
  await settle()
  expect(reports.at(-1)).toMatchObject({ phase: 'Running', lostFilesystems: ['data'] })
  fake.killGuests()
  await settle()
  expect(reports.at(-1)?.lostFilesystems).toBeUndefined()
})

describe('a QEMU that hangs', () => {
  const since = () => recorded().unresponsiveSince
  const recorded = () => reports.at(-1) ?? { unresponsiveSince: 'no report' }

  test('is reported after 20 s without a response of its monitor, until it responds', async () => {
    await start(vm('idle'))
    fake.hangGuests()
    await clock.advance(29_999)
    expect(since()).toBeUndefined()
    await clock.advance(1)
    expect(recorded()).toMatchObject({ phase: 'Running', unresponsiveSince: '2030-01-01T00:00:10.000Z' })
    fake.resumeGuests()
    await settle()
    expect(recorded()).toMatchObject({ phase: 'Running' })
    expect(since()).toBeUndefined()
  })

  test('is reported with its last domain, while libvirtd waits for QEMU to describe it', async () => {
    const { domain } = await start(vm('idle'))
    const before = count('domain_get_xml_desc')
    fake.hangGuests()
    let late: DomainReport | undefined
    void life.report().then((report) => (late = report))
    await until(
      () => late !== undefined,
      () => clock.advance(250),
    )
    expect(late).toMatchObject({ phase: 'Running', domain })
    expect(await life.report()).toMatchObject({ phase: 'Running', domain })
    await clock.advance(300_000)
    fake.resumeGuests()
    await settle()
    // The call that waited, and the report after it.
    expect(count('domain_get_xml_desc') - before).toBeLessThanOrEqual(3)
    expect(since()).toBeUndefined()
  })

  test('is pinged once, since libvirtd blocks the call', async () => {
    await start(vm('idle'))
    fake.hangGuests()
    await clock.advance(300_000)
    fake.resumeGuests()
    await settle()
    expect(count('domain_get_iothread_info')).toBe(1)
  })

  test('is destroyed at the end of its grace period', async () => {
    await start(vm('idle'))
    fake.hangGuests()
    life.shutdown(30)
    await clock.advance(30_000)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
    // libvirtd responds to none while QEMU hangs; further ones would delay the destroy.
    expect(count('domain_shutdown_flags')).toBe(1)
  })
})

describe('the end has a message', () => {
  test.each<[string, (life: Life) => void, string]>([
    [
      'a deletion of the VM',
      (life) => life.shutdown(7),
      'the guest did not power off within its grace period of 7 s, and was ended',
    ],
    [
      'the end of the pod',
      (life) => life.terminate(),
      'the guest did not power off within its grace period of 30 s, and was ended; the launcher pod was deleted, evicted or drained from its node',
    ],
    ['a request', (life) => life.destroy(), 'QEMU was ended on request, without a grace period'],
  ])('by %s', async (_, end, message) => {
    await start(vm('idle'))
    end(life)
    await clock.advance(30_000)
    expect(reports.at(-1)).toMatchObject({ reason: 'destroyed', exit: 'Failed', message })
  })
})

describe('libvirtd is lost', () => {
  test('while the VM runs: it continues to run, is not reported meanwhile, and is found again', async () => {
    await start(vm('idle'))
    fake.restart(Infinity)
    await settle()
    const unreachable = rejection(life.report())
    await clock.advance(20_000)
    expect(await unreachable).toMatchObject({ name: 'DeadlineExceeded' })
    expect(standings().at(-1)).toBe('Running unpaused')
    fake.restart()
    await clock.advance(5000)
    expect(await life.report()).toMatchObject({ phase: 'Running' })
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
  })

  test('and finds QEMU dead without an event: it is noticed within 10 s', async () => {
    await start(vm('idle'))
    await settle()
    fake.killGuests({ hasEvent: false })
    await clock.advance(9999)
    expect(standings().at(-1)).toBe('Running unpaused')
    await clock.advance(1)
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
  })

  test('while the VM is started: reports that at once, and starts the VM when libvirtd is back', async () => {
    await settle()
    fake.mute()
    expect(life.accept(vm('idle'))).toMatchObject({ vmUID: 'u-1', phase: 'Defined', reason: 'starting' })
    await settle()
    fake.restart()
    await settle()
    expect(await life.report()).toMatchObject({ phase: 'Defined', reason: 'starting', message: expect.anything() })
    await clock.advance(2000)
    expect(await life.report()).toMatchObject({ phase: 'Running', reason: 'unpaused' })
    expect(count('domain_create_with_flags')).toBe(1)
  })

  test('after the start but before its reply: the VM is not started twice', async () => {
    await start(vm('idle'))
    // As if the answer had been lost: a launcher that knows nothing finds a domain that runs.
    makeLife()
    expect(await start(vm('idle'))).toMatchObject({ phase: 'Running' })
    expect(count('domain_create_with_flags')).toBe(1)
  })
})

describe('a libvirtd that does not reply', () => {
  const starts = () => count('domain_create_with_flags')

  test('is ended after at least 60 s, and the next one reports the guest, which still runs', async () => {
    await start(vm('idle'))
    await clock.advance(100_000)
    fake.mute()
    await clock.advance(60_000)
    expect(startedAtMs).toEqual([0])
    await clock.advance(30_000)
    expect(startedAtMs).toHaveLength(2)
    expect(await life.report()).toMatchObject({ phase: 'Running' })
    fake.killGuests()
    await settle()
    expect([standings().at(-1), starts()]).toEqual(['Shutoff crashed Failed', 1])
  })

  test('after QEMU was ended is ended, and the next one reports that end without starting another QEMU', async () => {
    await start(vm('idle'))
    fake.killGuests({ hasEvent: false })
    fake.mute()
    await clock.advance(100_000)
    expect([standings().at(-1), starts()]).toEqual(['Shutoff crashed Failed', 1])
    expect(startedAtMs).toHaveLength(2)
  })

  test.each<[string, () => void]>([
    ['', () => fake.mute()],
    [', except to PINGs,', () => fake.lockGuests()],
  ])('%s delays the end of a guest, but does not prevent it', async (_, hang) => {
    await start(vm('idle'))
    hang()
    life.destroy()
    await clock.advance(120_000)
    expect([standings().at(-1), starts()]).toEqual(['Shutoff destroyed Failed', 1])
  })

  test.each<['crashed' | 'daemon', boolean, string]>([
    ['crashed', true, 'destroyed'],
    ['daemon', true, 'destroyed'],
    ['crashed', false, 'crashed'],
    ['daemon', false, 'daemon'],
  ])('and whose successor finds QEMU %s: destroyed %s, it is reported as %s', async (reason, isDestroyed, reported) => {
    await start(vm('idle'))
    fake.mute()
    if (isDestroyed) life.destroy()
    fake.killGuests({ hasEvent: false, reason })
    await clock.advance(100_000)
    expect(standings().at(-1)).toBe(`Shutoff ${reported} Failed`)
  })

  test('while a guest powers off does not turn that into a failure', async () => {
    await start(vm('idle'))
    fake.beginPowerOff()
    await settle()
    fake.lockGuests()
    fake.killGuests({ hasEvent: false, reason: 'unknown' })
    await clock.advance(100_000)
    expect(startedAtMs).toHaveLength(2)
    expect(standings().at(-1)).toBe('Shutoff shutdown Succeeded')
  })

  test('before it has the VM is ended, and the next one starts the VM', async () => {
    await settle()
    fake.mute()
    life.accept(vm('idle'))
    await clock.advance(120_000)
    expect([standings().at(-1), starts()]).toEqual(['Running unpaused', 1])
    expect(startedAtMs).toHaveLength(2)
  })

  test('again is ended again', async () => {
    await start(vm('idle'))
    fake.mute()
    await clock.advance(100_000)
    fake.mute()
    await clock.advance(100_000)
    expect(startedAtMs).toHaveLength(3)
    expect(await life.report()).toMatchObject({ phase: 'Running' })
  })

  test.each<[string, () => unknown]>([
    ['replies', () => {}],
    ['waits for a QEMU that hangs', () => fake.hangGuests()],
    ['waits for a QEMU that hangs without space', () => pauseAndHang()],
    ['does not reply for less than a minute', () => silence(40_000)],
  ])('is distinguished from one that %s', async (_, happen) => {
    await start(vm('idle'))
    await happen()
    await clock.advance(600_000)
    expect(startedAtMs).toEqual([0])
  })

  async function pauseAndHang(): Promise<void> {
    fullDisk = 'vda'
    fake.pauseGuests([{ disk: 'vda', error: 2 }])
    await settle()
    fake.hangGuests()
  }

  async function silence(ms: number): Promise<void> {
    fake.mute()
    await clock.advance(ms)
    fake.restart()
  }
})
