import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

const ordered = (...orders: (number | undefined)[]): Domain => ({
  devices: {
    interfaces: orders.map((order) => ({ type: 'user', ...(order === undefined ? {} : { boot: { order } }) })),
  },
})

const boots = (...kinds: ('hd' | 'network')[]): Domain => ({
  os: { type: { os: 'hvm' }, boots: kinds.map((dev) => ({ dev })) },
})

testRule('boot-order', [
  {
    refused: ordered(2, 1, 1, 1),
    causes: [
      'spec.domain.devices.interfaces[2].boot.order: Duplicate value: 1: is already the boot order of spec.domain.devices.interfaces[1]',
      'spec.domain.devices.interfaces[3].boot.order: Duplicate value: 1: is already the boot order of spec.domain.devices.interfaces[1]',
    ],
    accepted: ordered(2, 1, 3, undefined),
  },
  {
    refused: { ...ordered(undefined, 1, 2), ...boots('hd') },
    causes: [
      'spec.domain.os.boots: Forbidden: must not be set together with boot.order of a device, here spec.domain.devices.interfaces[1]',
    ],
    accepted: { ...ordered(undefined), ...boots('hd') },
  },
  {
    refused: { ...ordered(1, 1), ...boots('hd') },
    causes: [
      'spec.domain.os.boots: Forbidden: must not be set together with boot.order of a device, here spec.domain.devices.interfaces[0]',
      'spec.domain.devices.interfaces[1].boot.order: Duplicate value: 1: is already the boot order of spec.domain.devices.interfaces[0]',
    ],
    accepted: ordered(1, 2),
  },
  {
    refused: { ...ordered(1), ...boots('hd') },
    causes: [
      'spec.domain.os.boots: Forbidden: must not be set together with boot.order of a device, here spec.domain.devices.interfaces[0]',
    ],
    accepted: { ...ordered(1), ...boots() },
  },
])

const tables = (...types: ('slic' | 'msdm' | 'rawset' | 'raw' | undefined)[]): Domain => ({
  os: {
    type: { os: 'hvm' },
    acpi: {
      tables: types.map((type, index) => ({ ...(type === undefined ? {} : { type }), value: `/table-${index}` })),
    },
  },
})

testRule('acpi-tables', [
  {
    refused: tables('slic', 'slic'),
    causes: [
      'spec.domain.os.acpi.tables[1].type: Duplicate value: "slic": is already the type of another table; only one is allowed',
    ],
    accepted: tables('slic', 'msdm', 'raw'),
  },
  {
    refused: tables('msdm', 'slic', 'msdm'),
    causes: [
      'spec.domain.os.acpi.tables[2].type: Duplicate value: "msdm": is already the type of another table; only one is allowed',
    ],
    accepted: tables('raw', 'raw'),
  },
  {
    refused: tables('raw', 'rawset'),
    causes: [
      'spec.domain.os.acpi.tables[1].type: Unsupported value: "rawset": is not supported by QEMU, only by Xen; use type raw for each table',
    ],
    accepted: tables('raw', 'raw'),
  },
])

const aliases = (...names: string[]): Domain => ({
  devices: { interfaces: names.map((name) => ({ type: 'user', alias: { name } })) },
})

const console = (name: string): Domain => ({
  devices: {
    serials: [{ type: 'pty', alias: { name: 'ua-a' } }],
    consoles: [{ type: 'pty', alias: { name } }],
    channels: [{ type: 'pty', target: { type: 'virtio' }, alias: { name } }],
  },
})

testRule('alias-unique', [
  {
    refused: aliases('ua-a', 'ua-a'),
    causes: [
      'spec.domain.devices.interfaces[1].alias.name: Duplicate value: "ua-a": is already the alias of spec.domain.devices.interfaces[0]',
    ],
    accepted: aliases('ua-a', 'ua-b'),
  },
  {
    refused: aliases('ua-a', 'net0', 'ua-a'),
    causes: [
      'spec.domain.devices.interfaces[2].alias.name: Duplicate value: "ua-a": is already the alias of spec.domain.devices.interfaces[0]',
    ],
    accepted: aliases('net0', 'net0'),
  },
  {
    refused: console('ua-a'),
    causes: [
      'spec.domain.devices.channels[0].alias.name: Duplicate value: "ua-a": is already the alias of spec.domain.devices.serials[0]',
    ],
    accepted: {
      devices: {
        serials: [{ type: 'pty', alias: { name: 'ua-a' } }],
        consoles: [{ type: 'pty', alias: { name: 'ua-a' } }],
      },
    },
  },
])

testRule('alias-reserved', [
  {
    refused: aliases('ua-a', 'ua-attached-a'),
    causes: [
      'spec.domain.devices.interfaces[1].alias.name: Forbidden: aliases that begin with ua-attached- are reserved for spec.attachedVolumes; choose another name after ua-',
    ],
    accepted: aliases('ua-a', 'ua-attached'),
  },
  {
    refused: { devices: { memballoon: { model: 'virtio', alias: { name: 'ua-attached-' } } } },
    causes: [
      'spec.domain.devices.memballoon.alias.name: Forbidden: aliases that begin with ua-attached- are reserved for spec.attachedVolumes; choose another name after ua-',
    ],
    accepted: aliases('attached-a'),
  },
])
