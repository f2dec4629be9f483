import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  InvalidLauncherResponse,
  maxCapabilitiesBytes,
  maxMessageBytes,
  parseCapabilitiesCache,
  parseDomainReport,
  parseJson,
  parseLauncherError,
  parsePutResponse,
  parseShutdownRequest,
  parseVolumesRequest,
} from './launcher-api.ts'

const report = { vmUID: 'u-1', phase: 'Running', reason: 'booted', observedAt: '2026-11-21T09:00:00Z' } as const
const podUID = '0f0e0d0c-0b0a-4908-8706-050403020100'
const volume = {
  name: 'a',
  claimName: 'a.b',
  podUID,
  dev: 'vdb',
  bus: 'virtio',
  phase: 'Failed',
  reason: 'AttachRefused',
  message: 'no slots',
}
const full = {
  ...report,
  reason: 'shutdown',
  version: 2,
  gracePeriodSeconds: 30,
  unresponsiveSince: '2026-11-21T08:59:00Z',
  lostFilesystems: ['data'],
  generation: 3,
  mediaFailure: 'sda: locked',
  volumes: [volume, { ...volume, name: 'b', phase: 'Attached', readOnly: true }],
  isTerminated: true,
  agent: 'connected',
  guest: { hostname: 'a', os: { id: 'b' }, interfaces: [{ mac: '52:54:00:00:00:01', ips: ['10.0.0.1'] }] },
  message: 'x',
  domain: { type: 'qemu', devices: { disks: [{ target: { dev: 'vda' } }] } },
  specDrift: [{ field: 'spec.domain.memory', spec: 1, libvirt: 2 }, { field: 'spec.domain.cpu' }],
  deadline: '2026-11-21T09:00:30.123+01:00',
  exit: 'Succeeded',
}

function nested(depth: number): unknown {
  return depth === 0 ? {} : { deeper: nested(depth - 1) }
}

function outcome(value: unknown): string {
  try {
    parseDomainReport(value)
    return 'accepted'
  } catch (error) {
    return error instanceof InvalidLauncherResponse ? 'rejected' : 'crashed'
  }
}

test.each<[string, unknown]>([
  ['more than 32', Array.from({ length: 33 }, (_, index) => ({ ...volume, name: `a${index}` }))],
  ['two of the same name', [volume, volume]],
  ['a name with a slash', [{ ...volume, name: '../a' }]],
  ['an unknown phase', [{ ...volume, phase: 'Lost' }]],
  ['no list', {}],
])('a report with volumes is rejected with %s', (_, volumes) =>
  expect(outcome({ ...report, volumes })).toBe('rejected'),
)

describe('a request for volumes', () => {
  const { phase: _phase, reason: _reason, message: _message, ...request } = volume
  const whole = { ...request, serial: 'S-1', readOnly: true }

  test('is accepted', () => expect(parseVolumesRequest({ volumes: [request, whole] })).toEqual([request, whole]))

  test.each<[string, unknown]>([
    ['more than 16', Array.from({ length: 17 }, () => request)],
    ['a name that leads elsewhere', [{ ...request, name: '..' }]],
    ['a pod that leads elsewhere', [{ ...request, podUID: '../../private' }]],
    ['a serial number that is XML', [{ ...request, serial: "'/><a b='" }]],
    ['a bus that is XML', [{ ...request, bus: "'/>" }]],
    ['a target that is XML', [{ ...request, dev: "'/>" }]],
    ['a text for readOnly', [{ ...request, readOnly: 'yes' }]],
  ])('is rejected with %s', (_, volumes) =>
    expect(() => parseVolumesRequest({ volumes })).toThrow(InvalidLauncherResponse),
  )
})

describe('a report is accepted unchanged', () => {
  test.each([
    ['with the required fields', report],
    ['with every field', full],
    ['a domain with much metadata', { ...report, domain: { metadata: 'x'.repeat(500_000) } }],
  ])('%s', (_, value) => expect(parseDomainReport(value)).toEqual(value))

  test('with its control characters replaced, in one line', () => {
    const { message } = parseDomainReport({ ...report, message: 'x\r\n\u001B[2J' })
    expect(message).toBe('x; \uFFFD[2J')
  })

  test('without the fields of a newer launcher', () => {
    expect(parseDomainReport({ ...report, extra: 1, agent: 'asleep' })).toEqual(report)
  })

  test.each(['nodeLost', 'podNotOwn', 'evicted', 'NodeLost', '42', ''])(
    'without the reason %j for an end, which no launcher has',
    (reason) => {
      const ended = { ...report, phase: 'Shutoff', exit: 'Failed' }
      expect(parseDomainReport({ ...ended, reason })).toEqual({ ...ended, reason: 'unknown' })
    },
  )

  test.each(['PodMissing', 'ClaimInUse', 'a b', 7])(
    'without the reason %j for a volume, which no launcher has',
    (reason) => {
      const { volumes } = parseDomainReport({ ...report, volumes: [{ ...volume, reason }] })
      expect(volumes).toEqual([{ ...volume, reason: 'Unknown' }])
    },
  )

  test('without what a guest cannot claim', () => {
    const guest = { hostname: '', interfaces: [{ mac: 'a', ips: ['b'] }] }
    expect(parseDomainReport({ ...report, agent: 'connected', guest })).toEqual({
      ...report,
      agent: 'connected',
      guest: {},
    })
  })

  test('in the response to PUT /vm', () => expect(parsePutResponse({ domain: full })).toEqual(full))
})

describe('a report is rejected', () => {
  test.each([
    ['a reason that is a sentence', { ...report, reason: 'shut, down' }, 'reason is not words'],
    ['a reason that forges columns', { ...report, reason: 'Evicted        kvm' }, 'reason is not words'],
    ['null', null, 'report is not an object'],
    ['a flag that is a text', { ...report, isTerminated: 'yes' }, 'isTerminated is not a boolean'],
    ['a list', [report], 'report is not an object'],
    ['no uid', { ...report, vmUID: undefined }, 'report is not an object'],
    ['a uid that is not a string', { ...report, vmUID: 7 }, 'vmUID is not a string'],
    ['a long uid', { ...report, vmUID: 'u'.repeat(65) }, 'vmUID is longer than 64'],
    ['an unknown phase', { ...report, phase: 'Dancing' }, 'phase is not one of Waiting'],
    ['a phase from the prototype', { ...report, phase: 'constructor' }, 'phase is not one of'],
    ['an unknown exit', { ...report, exit: 'Maybe' }, 'exit is not one of'],
    ['an invalid time', { ...report, observedAt: 'yesterday' }, 'observedAt is not an RFC 3339 time'],
    ['a time in month 13', { ...report, observedAt: '2026-13-01T00:00:00Z' }, 'observedAt is not an RFC 3339 time'],
    ['a version that is not an integer', { ...report, version: '1' }, 'version is not an integer'],
    ['a deadline that is a number', { ...report, deadline: 5 }, 'deadline is not a string'],
    ['a domain that is a list', { ...report, domain: [] }, 'domain is not an object'],
    ['a domain that is too deep', { ...report, domain: nested(40) }, 'report is not an object of at most 32 levels'],
    [
      'a domain with a string too long',
      { ...report, domain: { metadata: 'x'.repeat(2 ** 20 + 1) } },
      'report is not an object',
    ],
    ['a tag that is not a string', { ...report, lostFilesystems: [7] }, 'lostFilesystems[0] is not a string'],
    [
      'too many tags',
      { ...report, lostFilesystems: Array(1001).fill('x') },
      'lostFilesystems is not a list of at most',
    ],
    ['a message too long', { ...report, message: 'x'.repeat(65_537) }, 'message is longer than 65536'],
    ['a domain of too many values', { ...report, domain: { a: Array(60_000).fill(0) } }, 'report is not an object'],
    ['a domain that reaches the prototype', JSON.parse(`{"domain": {"__proto__": {}}}`), 'report is not an object'],
    [
      'a domain that does so once it is shown',
      { ...report, domain: { a: [{ '\n__proto__ \n': {} }] } },
      'report is not an object',
    ],
    ['a drift that is not an object', { ...report, specDrift: ['x'] }, 'specDrift[0] is not an object'],
    ['a drift without field', { ...report, specDrift: [{}] }, 'specDrift[0].field is not a string'],
    [
      'too many drifts',
      { ...report, specDrift: Array(1001).fill({ field: 'x' }) },
      'specDrift is not a list of at most',
    ],
  ])('%s', (_, value, message) => {
    expect(() => parseDomainReport(value)).toThrow(InvalidLauncherResponse)
    expect(() => parseDomainReport(value)).toThrow(message)
  })

  test('or accepted, without any other error, whatever JSON it is', () => {
    const property = fc.property(fc.jsonValue(), (value) => ['accepted', 'rejected'].includes(outcome(value)))
    expect(fc.check(property).failed).toBe(false)
  })
})

describe('the other messages', () => {
  test('an unknown reason of an error, from a newer launcher, is an internal error', () => {
    const error = { reason: 'StartFailed', message: 'no such disk' }
    expect(parseLauncherError({ error })).toEqual(error)
    const fromNewer = { error: { reason: 'DiskOnFire', message: 'hot' } }
    expect(parseLauncherError(fromNewer)).toEqual({ reason: 'InternalError', message: 'hot' })
    expect(() => parseLauncherError({ error: { reason: 7, message: '' } })).toThrow('error.reason is not a string')
    expect(() => parseLauncherError({})).toThrow('error is not an object')
  })

  test('a grace period is an integer number of seconds', () => {
    expect(parseShutdownRequest({ gracePeriodSeconds: 0 })).toEqual({ gracePeriodSeconds: 0 })
    for (const gracePeriodSeconds of [-1, 1.5, '3', 1e10, undefined]) {
      expect(() => parseShutdownRequest({ gracePeriodSeconds })).toThrow(InvalidLauncherResponse)
    }
  })

  test('the file of a cache has the name of a hash and a limited length', () => {
    const cache = { name: `${'0'.repeat(64)}.xml`, text: '<qemuCaps/>' }
    expect(parseCapabilitiesCache({ ...cache, more: 1 })).toEqual(cache)
    for (const name of ['0.xml', `../${'0'.repeat(61)}.xml`, `${cache.name}/x`, `${'0'.repeat(64)}.xml\n`, undefined]) {
      expect(() => parseCapabilitiesCache({ ...cache, name })).toThrow(InvalidLauncherResponse)
    }
    for (const text of ['x'.repeat(maxCapabilitiesBytes + 1), 7, undefined]) {
      expect(() => parseCapabilitiesCache({ ...cache, text })).toThrow(InvalidLauncherResponse)
    }
  })

  test('text beyond the limit is not parsed', () => {
    expect(() => parseJson('x'.repeat(maxMessageBytes + 1))).toThrow('longer than')
  })
})
