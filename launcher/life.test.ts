import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../api/machine.ts'
import type { DomainReport, SpecDrift } from '../runtime/launcher-api.ts'
import { type FakeClock, fakeClock, settle } from '../test/fake-clock.ts'
import { type FakeLibvirtd, fakeLibvirtd } from '../test/fake-libvirtd.ts'
import { until } from '../test/until.ts'
import { Life, finalHoldMs } from './life.ts'
import { Client } from './libvirt/client.ts'
import { LibvirtError } from './libvirt/errors.ts'
import { Refused } from './refused.ts'

let fake: FakeLibvirtd
let clock: FakeClock
let client: Client
let life: Life
let told: DomainReport[]
let drift: SpecDrift[]
let exit: string | undefined
let prepareFailure: Error | undefined
let oomKills: () => number

beforeEach(() => {
  fake = fakeLibvirtd()
  clock = fakeClock()
  told = []
  drift = []
  exit = undefined
  prepareFailure = undefined
  oomKills = () => 0
  makeLife()
})

afterEach(() => client.close())

function makeLife(vmUID?: string): void {
  client?.close()
  client = new Client({ dial: () => fake.dial(), uri: 'qemu:///session', clock, onHint: () => life.hint() })
  life = new Life({
    client,
    clock,
    log: () => {},
    ...(vmUID === undefined ? {} : { vmUID }),
    readMemoryUse: async () => ({ oomKills: oomKills(), limitBytes: 2 ** 27, peakBytes: 2 ** 27 }),
    prepare: async (spec) => {
      if (prepareFailure !== undefined) throw prepareFailure
      return spec.domain
    },
    writeXml: ({ name, title }) => `<domain><name>${name}</name><title>${title}</title></domain>`,
    readXml: (xml) => ({ xml }),
    compare: () => drift,
  })
  life.subscribe((report) => told.push(report))
  life.ended.then((ended) => (exit = ended)).catch(() => {})
  client.start()
}

/** A VM whose guest behaves as the fake does by this word. */
function machine(guest: 'idle' | 'powerOff' | 'obedient', uid = 'u-1', graceSeconds?: number): VirtualMachine {
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

/** Gives it the VM, and reads how it stands once libvirt has done its part. */
async function start(vm: VirtualMachine): Promise<DomainReport> {
  life.accept(vm)
  return until(async () => {
    const report = await life.report()
    return report.phase !== 'Defined' && report
  })
}

const standings = () => told.map(({ phase, reason, exit: ended }) => [phase, reason, ended].filter(Boolean).join(' '))
const count = (procedure: string) => fake.calls.filter((call) => call === procedure).length

/** What a promise fails with, so that it may fail while something else is waited for. */
const rejection = (promise: Promise<unknown>): Promise<unknown> =>
  promise.then(
    () => undefined,
    (error: unknown) => error,
  )

describe('a VM', () => {
  test('that was not given is waited for', async () => {
    expect(await life.report()).toMatchObject({ vmUID: '', phase: 'Waiting' })
  })

  test('is defined, started and reported', async () => {
    const report = await start(machine('idle'))
    expect(report).toEqual({
      vmUID: 'u-1',
      phase: 'Running',
      reason: 'booted',
      domain: { xml: '<domain><name>testvm</name><title>idle</title></domain>' },
      specDrift: [],
      observedAt: '2030-01-01T00:00:00.000Z',
    })
    expect(told.at(-1)).toEqual(report)
  })

  test('that is given again is started once', async () => {
    life.accept(machine('idle'))
    life.accept(machine('idle'))
    await start(machine('idle'))
    expect([count('domain_define_xml_flags'), count('domain_create_with_flags')]).toEqual([1, 1])
  })

  test('is the only one', async () => {
    await start(machine('idle'))
    expect(() => life.accept(machine('idle', 'u-2'))).toThrow(
      'this launcher belongs to the VirtualMachine with uid u-1',
    )
  })

  test('is the one that the launcher was made for', async () => {
    makeLife('u-2')
    expect(() => life.accept(machine('idle'))).toThrow('this launcher belongs to the VirtualMachine with uid u-2')
    expect(await start(machine('idle', 'u-2'))).toMatchObject({ phase: 'Running' })
  })

  test('that libvirt changed shows where', async () => {
    drift = [{ field: 'spec.domain.memory', spec: 1, libvirt: 2 }]
    expect((await start(machine('idle'))).specDrift).toEqual(drift)
  })

  test('whose report did not change is told once', async () => {
    await start(machine('idle'))
    await settle()
    const before = told.length
    life.hint()
    life.hint()
    await settle()
    expect(told).toHaveLength(before)
  })
})

test('a hundred who ask at once cost two readings', async () => {
  await start(machine('idle'))
  await settle()
  const before = count('domain_get_state')
  const reports = await Promise.all(Array.from({ length: 100 }, () => life.report()))
  expect(new Set(reports.map(({ phase }) => phase))).toEqual(new Set(['Running']))
  expect(count('domain_get_state') - before).toBe(2)
})

describe('the end', () => {
  test('of a guest that powers itself off is a success, held until it was read', async () => {
    await start(machine('powerOff'))
    await settle()
    expect(standings().at(-1)).toBe('Shutoff shutdown Succeeded')
    await clock.advance(finalHoldMs - 1)
    expect(exit).toBe(undefined)
    life.final()
    await settle()
    expect(exit).toBe('Succeeded')
  })

  test('is held for 15 s at most', async () => {
    await start(machine('powerOff'))
    await settle()
    await clock.advance(finalHoldMs)
    expect(exit).toBe('Succeeded')
  })

  test('of a QEMU that was killed is a failure, and is not followed by a start', async () => {
    await start(machine('idle'))
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
    await start(machine('idle'))
    expect(count('domain_create_with_flags')).toBe(1)
  })

  test('cannot be confirmed before it came', async () => {
    await start(machine('idle'))
    life.final()
    await clock.advance(60_000)
    expect(exit).toBe(undefined)
  })
})

describe('shutdown', () => {
  test('of an obedient guest is a success', async () => {
    await start(machine('obedient'))
    life.shutdown(30)
    await settle()
    expect(standings().at(-1)).toBe('Shutoff shutdown Succeeded')
    await clock.advance(120_000)
    expect(count('domain_destroy_flags')).toBe(0)
  })

  test('of a deaf one presses the button every 5 s, and destroys it at the deadline', async () => {
    await start(machine('idle'))
    life.shutdown(30)
    expect(await life.report()).toMatchObject({ phase: 'ShuttingDown', deadline: '2030-01-01T00:00:30.000Z' })
    await clock.advance(29_999)
    expect([count('domain_shutdown_flags'), count('domain_destroy_flags')]).toEqual([6, 0])
    await clock.advance(1)
    expect(count('domain_destroy_flags')).toBe(1)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('that is asked again keeps the first deadline', async () => {
    await start(machine('idle'))
    life.shutdown(30)
    await clock.advance(10_000)
    life.shutdown(3600)
    expect(await life.report()).toMatchObject({ deadline: '2030-01-01T00:00:30.000Z' })
    await clock.advance(20_000)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('that two ask for at once is begun once', async () => {
    await start(machine('idle'))
    life.shutdown(30)
    life.shutdown(30)
    await clock.advance(5000)
    expect(count('domain_shutdown_flags')).toBe(3)
  })

  test('is answered before libvirt is, and done once libvirtd is back', async () => {
    await start(machine('idle'))
    fake.restart(Infinity)
    await settle()
    life.shutdown(7)
    life.destroy()
    fake.restart()
    await clock.advance(20_000)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('without grace destroys at once', async () => {
    await start(machine('idle'))
    life.shutdown(0)
    await clock.advance(0)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('outlives the daemon', async () => {
    await start(machine('idle'))
    life.shutdown(30)
    fake.restart(3)
    await clock.advance(40_000)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('of nothing is refused', () => {
    expect(() => life.shutdown(30)).toThrow('no VirtualMachine is here yet')
    expect(() => life.destroy()).toThrow('no VirtualMachine is here yet')
  })

  test.each([
    ['the VM’s own grace period', 7, 7000],
    ['30 s where it has none', undefined, 30_000],
  ])('by the kubelet takes %s', async (_, graceSeconds, deadlineMs) => {
    await start(machine('idle', 'u-1', graceSeconds))
    life.terminate()
    await clock.advance(deadlineMs - 1)
    expect(count('domain_destroy_flags')).toBe(0)
    await clock.advance(1)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })

  test('by the kubelet before there is a VM ends the launcher at once', async () => {
    life.terminate()
    await settle()
    expect(exit).toBe('Failed')
  })

  test('by the kubelet after the end changes nothing', async () => {
    await start(machine('powerOff'))
    await settle()
    life.terminate()
    await clock.advance(finalHoldMs)
    expect(exit).toBe('Succeeded')
  })

  test('of a QEMU that does not end kills it', async () => {
    await start(machine('idle'))
    fake.refuseNext('domain_destroy_flags', new LibvirtError('Failed to terminate process 7 with SIGTERM', 38, 10))
    life.destroy()
    await settle()
    expect(count('domain_destroy_flags')).toBe(2)
    expect(standings().at(-1)).toBe('Shutoff destroyed Failed')
  })
})

describe('what cannot run', () => {
  test.each([
    ['domain_define_xml_flags', 'Gone defineRefused Failed'],
    ['domain_create_with_flags', 'Shutoff startFailed Failed'],
  ])('since %s is refused ends, in libvirt’s words', async (procedure, standing) => {
    fake.refuseNext(procedure, new LibvirtError('unsupported configuration: no', 67, 10))
    expect((await start(machine('idle'))).message).toBe('unsupported configuration: no')
    expect(standings().at(-1)).toBe(standing)
    // Given again it is not tried again.
    await start(machine('idle'))
    expect(count(procedure)).toBe(1)
    life.final()
    await settle()
    expect(exit).toBe('Failed')
  })

  test('is told in as many words as the contract allows', async () => {
    fake.refuseNext('domain_create_with_flags', new LibvirtError('x'.repeat(100_000), 1, 10))
    await start(machine('idle'))
    expect(told.at(-1)?.message).toHaveLength(65_536)
  })

  test('since a volume is not there ends, too, in words that the handler reads', async () => {
    prepareFailure = new Refused('VolumeUnavailable', 'gone '.repeat(20_000))
    await start(machine('idle'))
    expect(standings().at(-1)).toBe('Gone volumeUnavailable Failed')
    expect(told.at(-1)?.message).toHaveLength(65_536)
  })
})

describe('memory runs out', () => {
  test('while the guest runs', async () => {
    await start(machine('idle'))
    oomKills = () => 1
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff OOMKilled Failed')
    expect(told.at(-1)?.message).toMatch(/^the kernel killed QEMU because memory ran out: .* limit of 128 MiB/)
  })

  test('while QEMU starts', async () => {
    fake.refuseNext('domain_create_with_flags', new LibvirtError('monitor socket closed', 1, 10))
    oomKills = () => count('domain_create_with_flags')
    await start(machine('idle'))
    await settle()
    expect(standings().at(-1)).toBe('Shutoff OOMKilled Failed')
  })

  test('before QEMU starts: a later crash is a crash', async () => {
    oomKills = () => 1
    await start(machine('idle'))
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
  })
})

describe('libvirtd is lost', () => {
  test('while the VM runs: it goes on, is not reported in the meantime, and is found again', async () => {
    await start(machine('idle'))
    fake.restart(Infinity)
    await settle()
    const unreachable = rejection(life.report())
    await clock.advance(20_000)
    expect(await unreachable).toMatchObject({ name: 'DeadlineExceeded' })
    expect(standings().at(-1)).toBe('Running booted')
    fake.restart()
    await clock.advance(5000)
    expect(await life.report()).toMatchObject({ phase: 'Running' })
    fake.killGuests()
    await settle()
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
  })

  test('and finds QEMU dead without telling: it is noticed within 10 s', async () => {
    await start(machine('idle'))
    await settle()
    fake.killGuests({ isTold: false })
    await clock.advance(9999)
    expect(standings().at(-1)).toBe('Running booted')
    await clock.advance(1)
    expect(standings().at(-1)).toBe('Shutoff crashed Failed')
  })

  test('while the VM is started: it says so at once, and starts the VM when libvirtd is back', async () => {
    await settle()
    fake.mute()
    expect(life.accept(machine('idle'))).toMatchObject({ vmUID: 'u-1', phase: 'Defined', reason: 'starting' })
    await settle()
    fake.restart()
    await settle()
    expect(await life.report()).toMatchObject({ phase: 'Defined', reason: 'starting', message: expect.anything() })
    await clock.advance(2000)
    expect(await life.report()).toMatchObject({ phase: 'Running', reason: 'booted' })
    expect(count('domain_create_with_flags')).toBe(1)
  })

  test('after the start was done but before it was answered: the VM is not started twice', async () => {
    await start(machine('idle'))
    // As if the answer had been lost: a launcher that knows nothing finds a domain that runs.
    makeLife()
    expect(await start(machine('idle'))).toMatchObject({ phase: 'Running' })
    expect(count('domain_create_with_flags')).toBe(1)
  })
})
