import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { elementOf, type Element, type Field } from '../../api/domain/description.ts'
import type { Reach } from '../../api/domain/reach.ts'
import { domain } from '../../api/domain/domain.ts'
import { limitsOf, valueFault } from '../../api/domain/scalar-value.ts'
import type { Scalar } from '../../api/domain/scalar.ts'
import { prose } from '../../api/domain/text.ts'
import { validateDomain } from '../../api/domain/validate.ts'

interface Leaf {
  readonly path: string
  readonly scalar: Scalar
  /** The furthest reach of it and its parents. */
  readonly reach: Reach
}

const distance: { readonly [reach in Reach]: number } = { guest: 0, pod: 1, host: 2 }
const further = (a: Reach, b: Reach): Reach => (distance[a] < distance[b] ? b : a)

/** Every scalar at every path of the description; an element inside itself is not entered again. */
const leavesOf = (element: Element, path: string, reach: Reach, above: readonly Element[]): Leaf[] =>
  Object.entries(element.fields).flatMap(([key, field]: [string, Field]) => {
    const at = path === '' ? key : `${path}.${key}`
    const of = further(reach, field.reach ?? 'guest')
    if ('scalar' in field) return [{ path: at, scalar: field.scalar, reach: of }]
    if (field.at !== 'child' && field.at !== 'children') return []
    const below = elementOf(field)
    return above.includes(below) ? [] : leavesOf(below, at, of, [...above, element])
  })

const leaves = leavesOf(domain, '', 'guest', [])
const texts = leaves.filter(({ scalar }) => limitsOf(scalar) !== undefined)

describe('text that users can write', () => {
  const channel = (name: string) => ({ devices: { channels: [{ type: 'unix', target: { type: 'virtio', name } }] } })
  const graphics = (more: object) => ({ devices: { graphics: [{ type: 'vnc', ...more }] } })
  const profile = (source: string) => ({ devices: { tpms: [{ backend: { type: 'emulator', profile: { source } } }] } })
  const nic = (more: object) => ({ devices: { interfaces: [{ type: 'user', ...more }] } })
  const disk = (more: object) => ({ devices: { disks: [{ device: 'disk', ...more }] } })
  const network = (more: object) => disk({ source: { protocol: 'https', ...more } })
  const firmware = (entry: object) => ({ sysinfos: [{ type: 'fwcfg', entries: [entry] }] })
  const cpu = (more: object) => ({ cpu: { mode: 'custom', ...more } })
  const file = 'must be a file name without `/` and control characters, neither `.` nor `..`'
  const name = 'must be a name of letters, digits, `-`, `_` and `.`, without a leading `-` or `.`'
  const line = 'must be one line without control characters'
  const host = 'must be an IP address, or a host name of letters, digits, `-` and `.`'
  const doubled = 'must be one line without control characters, in which each comma is doubled: `a,,b` means `a,b`'

  const row = (make: (value: string) => object, hostile: string, field: string, message: string, valid: string) => ({
    make,
    hostile,
    field,
    message,
    valid,
  })

  const agent = 'org.qemu.guest_agent.0'
  const channelName = 'devices.channels[0].target.name'
  test.each([
    row(channel, '../../../../../../../sockets/launcher.sock', channelName, file, agent),
    row(channel, '..', channelName, file, '...'),
    row(channel, '.', channelName, file, '.a'),
    row(channel, '', channelName, file, 'a b,c'),
    row(channel, `a\n${agent}`, channelName, file, 'é'),
    row(channel, 'ä'.repeat(121), channelName, 'must be at most 240 bytes long', 'ä'.repeat(120)),
    row((value) => ({ name: value }), 'a\nb', 'name', file, 'a b'),
    row((value) => ({ name: value }), '../a', 'name', file, '..a'),
    row((value) => ({ title: value }), 'a\nb', 'title', line, '../a, b'),
    row(
      (value) => ({ description: value }),
      'a\u007f',
      'description',
      'must be text without control characters other than tabs and line breaks',
      'a\n\tb',
    ),
    row((keymap) => graphics({ keymap }), '/etc/passwd', 'devices.graphics[0].keymap', name, 'de-ch'),
    row((keymap) => graphics({ keymap }), '../../../etc/passwd', 'devices.graphics[0].keymap', name, 'fr'),
    row((listen) => graphics({ listen }), 'unix:/sock', 'devices.graphics[0].listen', host, 'fe80::1'),
    row(
      (address) => graphics({ listens: [{ type: 'address', address }] }),
      '0.0.0.0,password=off',
      'devices.graphics[0].listens[0].address',
      host,
      '0.0.0.0',
    ),
    ...[':/etc/shadow', '/etc/shadow', '../../etc/shadow', 'Europe//Paris', 'CET-1CEST,M3.5.0'].map((zone) =>
      row(
        (timezone) => ({ clock: { offset: 'timezone', timezone } }),
        zone,
        'clock.timezone',
        'must be a time zone such as `Europe/Paris`: names of letters, digits, `_`, `+` and `-`, separated by single slashes',
        'America/Argentina/Buenos_Aires',
      ),
    ),
    row(
      profile,
      'local:../../x',
      'devices.tpms[0].backend.profile.source',
      'must be a name of letters, digits, `-`, `.` and `:`, without a leading `-` or `.`',
      'local:x.y',
    ),
    row((value) => cpu({ features: [{ name: value }] }), 'x=y,foo', 'cpu.features[0].name', name, 'sse4.1'),
    row((value) => cpu({ model: { value } }), 'qemu64,+vmx', 'cpu.model.value', name, 'Skylake-Client-noTSX-IBRS'),
    row(
      (vendorId) => cpu({ model: { vendorId } }),
      'AuthenticAMD\n',
      'cpu.model.vendorId',
      'must be 12 characters without commas and control characters',
      'AuthenticAMD',
    ),
    row(
      (value) => ({ features: { hyperv: { vendorId: { value } } } }),
      'a,vmx=on',
      'features.hyperv.vendorId.value',
      'must be at most 12 characters without commas and control characters',
      'KVM Hv',
    ),
    row((machine) => ({ os: { type: { machine } } }), 'pc,usb=on', 'os.type.machine', name, 'pc-q35-10.0'),
    row(
      (type) => nic({ model: { type } }),
      'e1000,romfile=/etc/passwd',
      'devices.interfaces[0].model.type',
      'must be a name of letters, digits, `-` and `_`',
      'virtio-non-transitional',
    ),
    row(
      (dev) => nic({ portForwards: [{ dev }] }),
      'eth0/22',
      'devices.interfaces[0].portForwards[0].dev',
      name,
      'eth0',
    ),
    row((dev) => nic({ target: { dev } }), '../tap', 'devices.interfaces[0].target.dev', name, 'tap0'),
    row((alias) => nic({ alias: { name: alias } }), 'ua-../x', 'devices.interfaces[0].alias.name', name, 'ua-x.y_z'),
    row((value) => firmware({ value }), 'a,string=,file=/etc/shadow', 'sysinfos[0].entries[0].value', doubled, 'a,,b'),
    row((value) => firmware({ value }), 'a,,,file=/x', 'sysinfos[0].entries[0].value', doubled, 'a,,,,file=/x'),
    row(
      (value) => firmware({ name: value }),
      'opt/x,file=/etc/shadow',
      'sysinfos[0].entries[0].name',
      'must be a name of printable ASCII characters without commas',
      'opt/com.example/name',
    ),
    row((cmdline) => ({ os: { cmdline } }), 'a\u0000b', 'os.cmdline', 'has a character that XML cannot hold', 'a=b,c'),
    row((cmdline) => ({ os: { cmdline } }), 'a\ud800', 'os.cmdline', 'has a character that XML cannot hold', '😀'),
    row((cmdline) => ({ os: { cmdline } }), 'a\r\nb', 'os.cmdline', line, 'a -b'),
    row((passwd) => graphics({ passwd }), 'a\u0085', 'devices.graphics[0].passwd', line, 'a,b'),
    row(
      (dev) => disk({ target: { dev } }),
      'vda/../x',
      'devices.disks[0].target.dev',
      'must be a disk name: `fd`, `hd`, `sd`, `vd`, `xvd` or `ubd` and letters or digits, e.g. `vda`',
      'vda',
    ),
    row(
      (serial) => disk({ serial }),
      'a,id=b',
      'devices.disks[0].serial',
      'must be letters, digits, spaces, `-`, `_`, `.` and `+`',
      '  WD-WMAP9A966149',
    ),
    row((query) => network({ query }), 'a=b\nc', 'devices.disks[0].source.query', line, 'a=b,c&d'),
    row(
      (value) => network({ host: { name: value } }),
      'a/../b',
      'devices.disks[0].source.host.name',
      host,
      'a.example',
    ),
    row(
      (value) => network({ cookies: { cookies: [{ name: 'a', value }] } }),
      'a; b=c',
      'devices.disks[0].source.cookies.cookies[0].value',
      'must be the value of a cookie: no spaces, commas, semicolons, backslashes or control characters',
      '"a=b"',
    ),
  ])('$field is not $hostile, and may be $valid', ({ make, hostile, field, message, valid }) => {
    expect(validateDomain(make(hostile), '').map((cause) => [cause.field, cause.message])).toEqual([[field, message]])
    expect(validateDomain(make(valid), '')).toEqual([])
  })
})

test('every text field reaches at least as far as what it can name', () => {
  const least = (scalar: Scalar): Reach =>
    scalar.kind === 'path'
      ? 'host'
      : scalar.kind === 'hostName'
        ? 'pod'
        : scalar.kind === 'text'
          ? scalar.reaches
          : 'guest'
  expect(texts.filter(({ scalar, reach }) => further(least(scalar), reach) !== reach).map(({ path }) => path)).toEqual(
    [],
  )
  expect(texts.filter(({ reach }) => reach === 'guest').length).toBeGreaterThan(50)
})

test('no text can have control characters, lone surrogates or unlimited length', () => {
  const bad = ['\0', '\u0001', '\u001b', '\u007f', '\u0085', '\ud800', '\udc00a', '\r', '\n', '\t']
  const admitted = texts.flatMap(({ path, scalar }) => {
    const limits = limitsOf(scalar)
    const broken = scalar === prose ? bad.slice(0, -3) : bad
    // Each valid text becomes invalid with this character alone.
    const starts = ['a', 'vda', '/a', '1', '1.10', '0644', 'a'.repeat(11)]
    const values = [
      ...broken.flatMap((one) => starts.flatMap((start) => [start + one, one + start])),
      'a'.repeat((limits?.maxBytes ?? 0) + 1),
    ]
    return values.filter((value) => valueFault(scalar, value) === undefined).map((value) => [path, value])
  })
  expect(admitted).toEqual([])
})

test('every text has a limit of at most 64 KiB', () =>
  expect(texts.filter(({ scalar }) => !((limitsOf(scalar)?.maxBytes ?? Infinity) <= 65_536))).toEqual([]))

test('a text that becomes a file name in the pod never leaves its directory', () => {
  const named = texts.filter(
    ({ scalar, path }) => scalar.kind === 'text' && scalar.reaches === 'pod' && path !== 'clock.timezone',
  )
  const piece = fc.constantFrom('/', '..', '.', 'a', '\\', ':', '\n', ' ', 'é')
  fc.assert(
    fc.property(fc.constantFrom(...named), fc.array(piece, { maxLength: 8 }), ({ scalar }, pieces) => {
      const value = pieces.join('')
      fc.pre(valueFault(scalar, value) === undefined)
      expect(value).not.toMatch(/^\.{0,2}$|\//)
    }),
    { numRuns: 2000 },
  )
})
