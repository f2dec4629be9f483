import { describe, expect, test } from 'vitest'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { parseDomainReport, type DomainReport } from '../runtime/launcher-api.ts'
import { plan } from './plan.ts'
import { shownDomain } from './shown-domain.ts'
import { statusOf } from './status.ts'

test.each<[string, object, object]>([
  ['a description of two lines', { description: 'a\n\tb' }, { description: 'a\n\tb' }],
  ['no second line elsewhere', { name: 'a\nPhase: Failed' }, { name: 'a; Phase: Failed' }],
  [
    'escape sequences',
    { name: '\u001b]0;a\u0007', list: ['\u009b2J'] },
    { name: '\ufffd]0;a\ufffd', list: ['\ufffd2J'] },
  ],
  ['text of the other direction in a key', { 'a\u202eb': { 'c\nd': 1 } }, { 'a\ufffdb': { 'c; d': 1 } }],
  [
    'a password',
    { devices: { graphics: [{ type: 'vnc', passwd: 'x' }] } },
    { devices: { graphics: [{ type: 'vnc' }] } },
  ],
  [
    'secrets under keys that are shown without white space',
    {
      devices: { graphics: [{ ' passwd': 'x', 'passwd\n': 'y', '\n passwd \n\n': 'z', type: 'vnc' }] },
      'cookies ': 'x',
    },
    { devices: { graphics: [{ type: 'vnc' }] } },
  ],
  ['other values', { a: null, b: [true, 7, {}] }, { a: null, b: [true, 7, {}] }],
])('of a live domain, the status shows %s', (_, domain, shown) => {
  expect(shownDomain({ ...domain })).toEqual(shown)
})

const now = '2030-01-01T00:00:00.000Z'
/** Hides what follows, turns it round, erases the line, and begins a field. */
const evil = '\u001b[2K\u202e\u200b\ue000\ufeff\u3164\r\nStatus:  True'
const hides = (text: string): boolean =>
  ['\u001b', '\u202e', '\u200b', '\ue000', '\ufeff', '\u3164', '\r', '\n'].some((one) => text.includes(one))

const mac = '52:54:00:00:00:01'
const vm: VirtualMachine = {
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default', uid: 'uid', generation: 2 },
  spec: {
    domain: { devices: { interfaces: [{ mac: { address: mac } }], graphics: [{ type: 'vnc', passwd: 'hidden' }] } },
  },
  status: { phase: 'Scheduled' },
}
const running = { vmUID: 'uid', phase: 'Running', reason: 'booted', observedAt: now }
const paused = { ...running, phase: 'Paused' }
const ended = { ...running, phase: 'Shutoff', reason: 'failed', exit: 'Failed' }

/** Everything that the status and the events of a VM say (runtime/events.ts cuts the latter), of a launcher that sends this. */
function textsOf(sent: object, from: readonly string[] = ['updateStatus', 'recordEvent']): string[] {
  const report: DomainReport = parseDomainReport(JSON.parse(JSON.stringify(sent)))
  return plan(vm, { kind: 'report', report, podIPs: ['10.0.0.5'] }, now).flatMap((action) =>
    from.includes(action.do) ? leavesOf(action) : [],
  )
}

const leavesOf = (value: unknown): string[] =>
  typeof value === 'object' && value !== null
    ? Object.entries(value).flatMap(([key, item]) => [key, ...leavesOf(item)])
    : [String(value)]

const withAlias = (name: string) => ({ devices: { interfaces: [{ alias: { name }, mac: { address: mac } }] } })
describe('a launcher hides nothing in a status or an event', () => {
  test.each<[string, object]>([
    ['the message of an end', { ...ended, message: evil }],
    ['the message of a start that failed', { ...ended, reason: 'startFailed', message: evil }],
    ['the message of a paused guest', { ...paused, message: evil }],
    ['the message of a download', { ...running, phase: 'Defined', reason: 'downloadFailed', message: evil }],
    ['a field and values that drift', { ...running, specDrift: [{ field: evil, spec: evil, libvirt: [evil] }] }],
    ['a medium that was refused', { ...running, generation: 2, mediaFailure: evil }],
    ['the tags of file systems', { ...running, lostFilesystems: [evil] }],
    ['the domain', { ...running, domain: { [evil]: evil, other: [evil], ...withAlias(evil) } }],
    ['the guest', { ...running, agent: 'connected', guest: { hostname: evil, os: { name: evil, id: evil } } }],
    ['a snapshot', { ...running, frozen: { id: evil, state: 'Failed', message: evil } }],
  ])('%s', (_, sent) => {
    const texts = textsOf(sent)
    expect(texts.join('')).toContain('Status:')
    expect(texts.filter(hides)).toEqual([])
  })

  test.each<[string, object, number]>([
    ['messages', { ...ended, message: 'x'.repeat(60_000) }, 4096],
    ['what drifts', { ...running, specDrift: [{ field: 'x'.repeat(1000), spec: 'x'.repeat(50_000) }] }, 4096],
    ['the guest', { ...running, agent: 'connected', guest: { os: { name: 'x'.repeat(50_000) } } }, 128],
  ])('long texts are cut: %s', (_, sent, most) => {
    const texts = textsOf(sent, ['updateStatus'])
    expect(texts.some((text) => text.includes('xxx'))).toBe(true)
    expect(texts.filter((text) => text.length > most)).toEqual([])
  })

  test('the name of an interface, also not a second line', () => {
    const report = parseDomainReport({ ...running, domain: withAlias(`a\n${evil}${'x'.repeat(999)}`) })
    const { interfaces } = statusOf(vm, report, [], now)
    expect(interfaces).toEqual([{ name: expect.stringMatching(/^a; \ufffd\[2K\ufffd+; Status: {2}Truex+$/), mac }])
    expect(interfaces?.[0]?.name?.length).toBeLessThan(70)
  })

  test('passwords of the spec, which libvirt does not show', () => {
    const graphics = [{ type: 'vnc', passwd: 'hidden' }]
    const specDrift = [
      { field: 'spec.domain.devices.graphics[0].passwd', spec: 'hidden' },
      { field: 'spec.domain.devices.graphics[0].passwd\n', spec: 'hidden' },
      { field: 'spec.domain.devices.graphics[0]. passwd', spec: 'hidden' },
      { field: 'spec.domain.devices.graphics[0]', spec: graphics[0], libvirt: {} },
      { field: 'spec.domain.devices.graphics[1]', spec: { ' passwd\n': 'hidden' }, libvirt: {} },
    ]
    const texts = textsOf({ ...running, domain: { devices: { graphics } }, specDrift })
    expect(texts.filter((text) => text.includes('hidden'))).toEqual([])
    expect(texts.join(' ')).toContain('spec.domain.devices.graphics[0].passwd differs; ')
  })
})
