import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { domains } from '../../test/arbitraries/domain.ts'
import { canonical } from './canonical.ts'
import { validateDomain } from './validate.ts'

/** `FIELD: REASON: MESSAGE (SUGGESTION)` of each cause. */
const lines = (json: string): string[] =>
  validateDomain(JSON.parse(json)).map(
    ({ field, reason, message, suggestion }) =>
      `${field}: ${reason.replace('FieldValue', '')}: ${message}${suggestion === undefined ? '' : ` (${suggestion})`}`,
  )

describe('a valid domain', () => {
  test.each([
    ['nothing', '{}'],
    ['decimal strings, and hex if libvirt writes hex', '{"memory":{"value":"64"},"launchSecurity":{"policy":"0x1"}}'],
    ['words for booleans', '{"os":{"bootmenu":{"enable":"yes"}},"features":{"pmu":{"state":"off"}}}'],
    ['64 bits as a string', '{"clock":{"timers":[{"name":"tsc","frequency":"18446744073709551615"}]}}'],
    ['a word beside numbers', '{"clock":{"offset":"utc","adjustment":"reset"}}'],
    ['an empty genid', '{"genid":""}'],
    ['XML of applications', '{"metadata":"<a xmlns=\\"urn:x\\"/>text"}'],
    ['a list of one by its short form', '{"devices":{"disks":[{"source":{"host":{"name":"a"}}}]}}'],
  ])('%s', (_, json) => expect(lines(json)).toEqual([]))
})

describe('reports all causes, each with the value, what is allowed and the likely fix', () => {
  test.each([
    ['no object', '[]', ['spec.domain: TypeInvalid: must be an object, not a list']],
    ['null', '{"cpu":null}', ['spec.domain.cpu: TypeInvalid: must be an object, not null']],
    [
      'a typo in a key',
      '{"memroy":{}}',
      ['spec.domain.memroy: Invalid: there is no such field (did you mean "memory"?)'],
    ],
    [
      "libvirt's name of a field",
      '{"on_reboot":"destroy","os":{"boot":{"dev":"hd"}}}',
      [
        'spec.domain.on_reboot: Invalid: there is no such field (did you mean "onReboot"?)',
        'spec.domain.os.boot: Invalid: there is no such field (did you mean "boots"?)',
      ],
    ],
    [
      'a key in the wrong place',
      '{"cpu":{"cores":4},"hyperv":{}}',
      [
        'spec.domain.cpu.cores: Invalid: there is no such field ("cores" belongs under cpu.topology)',
        'spec.domain.hyperv: Invalid: there is no such field ("hyperv" belongs under features)',
      ],
    ],
    ['a key without a likely meaning', '{"cpu":{"a b":4}}', ['spec.domain.cpu[a b]: Invalid: there is no such field']],
    [
      'two swapped fields',
      '{"devices":{"disks":[{"target":{"dev":"sata","bus":"sda"}}]}}',
      [
        'spec.domain.devices.disks[0].target.dev: Invalid: must be a disk name: `fd`, `hd`, `sd`, `vd`, `xvd` or `ubd` and letters or digits, e.g. `vda`',
        'spec.domain.devices.disks[0].target.bus: NotSupported: supported values: "virtio", "scsi", "sata", "ide", "usb", "fdc", "sd" (swapped with "dev"?)',
      ],
    ],
    [
      'a word that is not in the enumeration',
      '{"cpu":{"mode":"hostmodel"}}',
      [
        'spec.domain.cpu.mode: NotSupported: supported values: "custom", "host-model", "host-passthrough", "maximum" (did you mean "host-model"?)',
      ],
    ],
    [
      'a number for a size',
      '{"memory":64}',
      ['spec.domain.memory: TypeInvalid: must be an object, not a number (did you mean {unit: MiB, value: 64}?)'],
    ],
    [
      'the kibibytes of libvirt',
      '{"currentMemory":524288}',
      [
        'spec.domain.currentMemory: TypeInvalid: must be an object, not a number (did you mean {unit: KiB, value: 524288}?)',
      ],
    ],
    [
      'the bytes of Kubernetes',
      '{"memory":536870912}',
      ['spec.domain.memory: TypeInvalid: must be an object, not a number (did you mean {unit: b, value: 536870912}?)'],
    ],
    [
      'true for an object that needs fields',
      '{"devices":{"disks":[{"target":true}]}}',
      ['spec.domain.devices.disks[0].target: TypeInvalid: must be an object, not a boolean'],
    ],
    [
      'a quantity of Kubernetes',
      '{"memory":"512Mi","currentMemory":{"unit":"Mi","value":1}}',
      [
        'spec.domain.memory: TypeInvalid: must be an object, not a string (did you mean {unit: MiB, value: 512}?)',
        'spec.domain.currentMemory.unit: Invalid: must be a unit of size: b, KB, KiB, MB, MiB, GB, GiB, TB, TiB, PB, PiB, EB or EiB (did you mean "MiB"?)',
      ],
    ],
    [
      'a word for an object with one field for it',
      '{"devices":{"memballoon":"none"}}',
      ['spec.domain.devices.memballoon: TypeInvalid: must be an object, not a string (did you mean {model: "none"}?)'],
    ],
    [
      'true for a feature',
      '{"features":{"pae":true}}',
      ['spec.domain.features.pae: TypeInvalid: must be an object, not a boolean (did you mean {}?)'],
    ],
    [
      'an object for a list',
      '{"clock":{"timers":{"name":"rtc"}}}',
      [
        'spec.domain.clock.timers: TypeInvalid: must be a list, not an object (put a dash before its first field: a list of one)',
      ],
    ],
    [
      'numbers',
      '{"vcpu":{"value":0},"iothreads":1.5,"memory":{"value":"0x40"},"clock":{"start":9007199254740993}}',
      [
        'spec.domain.vcpu.value: Invalid: must be at least 1',
        'spec.domain.iothreads: Invalid: must be an integer',
        'spec.domain.memory.value: Invalid: must be an integer (did you mean 64?)',
        'spec.domain.clock.start: Invalid: is too large to be exact as a number: write it as a string',
      ],
    ],
    [
      'sizes that only their units make too large',
      '{"memory":{"value":17,"unit":"EiB"},"cpu":{"numa":{"cells":[{"memory":17,"unit":"EiB"},{"memory":15,"unit":"EiB"}]}},"currentMemory":{"value":"18446744073709551615"}}',
      [
        'spec.domain.memory.value: Invalid: must be less than 16 EiB together with its unit',
        'spec.domain.cpu.numa.cells[0].memory: Invalid: must be less than 16 EiB together with its unit',
        'spec.domain.currentMemory.value: Invalid: must be less than 16 EiB together with its unit',
      ],
    ],
    [
      'a range beyond 2^53',
      '{"memory":{"value":"18446744073709551616"}}',
      ['spec.domain.memory.value: Invalid: must be at most 18446744073709551615'],
    ],
    [
      'a long integer in place of text',
      '{"title":12345678901234567890}',
      ['spec.domain.title: TypeInvalid: must be a string, not a number (put it in quotes)'],
    ],
    [
      'text',
      '{"name":1.0,"title":"a\\u0000","uuid":"1-2","os":{"kernel":"vmlinuz"},"metadata":"<a>"}',
      [
        'spec.domain.name: TypeInvalid: must be a string, not a number (put it in quotes: "1")',
        'spec.domain.title: Invalid: has a character that XML cannot hold',
        'spec.domain.uuid: Invalid: must be a UUID: 32 hex digits as 8-4-4-4-12',
        'spec.domain.os.kernel: Invalid: must be an absolute path without control characters',
        'spec.domain.metadata: Invalid: must be well-formed XML: line 1: unclosed tag: a',
      ],
    ],
    [
      'a word of the other kind',
      '{"features":{"pmu":{"state":"yes"}}}',
      ['spec.domain.features.pmu.state: TypeInvalid: must be true or false, not that string'],
    ],
    [
      'items of lists by their index',
      '{"clock":{"timers":[{"name":"rtc"},{"name":"hpt"}]}}',
      [
        'spec.domain.clock.timers[1].name: NotSupported: supported values: "platform", "hpet", "kvmclock", "pit", "rtc", "tsc", "hypervclock", "armvtimer" (did you mean "hpet"?)',
      ],
    ],
    [
      'a list in both forms',
      '{"devices":{"disks":[{"source":{"hosts":[],"host":{"name":"a"}}}]}}',
      [
        'spec.domain.devices.disks[0].source.host: Forbidden: conflicts with hosts: it is the short form for a list of one',
      ],
    ],
  ])('%s', (_, json, expected) => expect(lines(json)).toEqual(expected))
})

describe('hostile JSON', () => {
  test('a key that is special in JavaScript is treated as data', () => {
    const json = '{"__proto__":{"polluted":1},"constructor":{"prototype":{}},"cpu":{"toString":1,"__proto__":2}}'
    expect(validateDomain(JSON.parse(json)).map(({ field }) => field)).toEqual([
      'spec.domain.__proto__',
      'spec.domain.constructor',
      'spec.domain.cpu.toString',
      'spec.domain.cpu.__proto__',
    ])
    expect({}).not.toHaveProperty('polluted')
  })

  test('a recursive element is limited in depth', () => {
    const depth = 100_000
    const json = `{"devices":{"disks":[${'{"backingStore":'.repeat(depth)}{}${'}'.repeat(depth)}]}}`
    expect(validateDomain(JSON.parse(json))).toMatchObject([
      { rule: 'nesting', message: 'must not nest deeper than 128 levels' },
    ])
  })

  test('a hundred thousand unknown fields are counted, not all listed', () => {
    const many = Object.fromEntries(Array.from({ length: 100_000 }, (_, index) => [`field${index}`, 1]))
    const start = process.cpuUsage().user
    const causes = validateDomain(many)
    expect(process.cpuUsage().user - start).toBeLessThan(2_000_000)
    expect(causes).toHaveLength(257)
    expect(causes.at(-1)).toMatchObject({ field: 'spec.domain', value: 99_744, message: 'more faults are not listed' })
  })

  test('never throws, for any JSON', () =>
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        expect(() => validateDomain(value)).not.toThrow()
      }),
    ))
})

test('generated domains are valid, and so are their canonical forms', () =>
  fc.assert(
    fc.property(domains(), (domain) => {
      expect(validateDomain(domain)).toEqual([])
      expect(validateDomain(canonical(domain))).toEqual([])
    }),
    { numRuns: 300 },
  ))

test('reports a value that is not an object', () => {
  expect(validateDomain(1, 'domain')).toEqual([
    {
      rule: 'type',
      field: 'domain',
      value: 1,
      reason: 'FieldValueTypeInvalid',
      message: 'must be an object, not a number',
    },
  ])
})
