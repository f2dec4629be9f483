import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'

type Sysinfo = NonNullable<Domain['sysinfos']>[number]

const sysinfo = (one: Sysinfo): Domain => ({ sysinfos: [one] })

const entries = [{ name: 'vendor', value: 'x' }] as const

testRule('sysinfo-fields', [
  {
    refused: sysinfo({ type: 'fwcfg', bios: { entries: [...entries] }, oemStrings: { entries: ['x'] } }),
    causes: [
      'spec.domain.sysinfos[0].bios: Forbidden: must not be set for type fwcfg',
      'spec.domain.sysinfos[0].oemStrings: Forbidden: must not be set for type fwcfg',
    ],
    accepted: sysinfo({ type: 'smbios', bios: { entries: [...entries] }, oemStrings: { entries: ['x'] } }),
  },
  {
    refused: sysinfo({ type: 'smbios', entries: [{ name: 'opt/com.example/name', value: 'x' }] }),
    causes: ['spec.domain.sysinfos[0].entries: Forbidden: must not be set for type smbios'],
    accepted: sysinfo({ type: 'fwcfg', entries: [{ name: 'opt/com.example/name', value: 'x' }] }),
  },
])

const uuid = 'a94b4335-6a14-8bc4-d6da-f7ea590b6816'

const withUuid = (value: string): Domain => ({
  uuid,
  ...sysinfo({ type: 'smbios', system: { entries: [{ name: 'uuid', value }] } }),
})

const dated = (value: string): Domain => sysinfo({ type: 'smbios', bios: { entries: [{ name: 'date', value }] } })

testRule('sysinfo-smbios', [
  {
    refused: { os: { type: { os: 'hvm' }, smbios: { mode: 'sysinfo' } } },
    causes: ['spec.domain.sysinfos: Required value: must have an item of type smbios when os.smbios.mode is sysinfo'],
    accepted: { os: { type: { os: 'hvm' }, smbios: { mode: 'sysinfo' } }, ...dated('01/31/2024') },
  },
  {
    refused: withUuid('a94b4335'),
    causes: ['spec.domain.sysinfos[0].system.entries[0].value: Invalid value: "a94b4335": must be a UUID'],
    accepted: withUuid(uuid),
  },
  {
    refused: withUuid('a94b4335-6a14-8bc4-d6da-f7ea590b6817'),
    causes: [
      'spec.domain.sysinfos[0].system.entries[0].value: Invalid value: "a94b4335-6a14-8bc4-d6da-f7ea590b6817": must be the UUID of the domain, a94b4335-6a14-8bc4-d6da-f7ea590b6816',
    ],
    accepted: withUuid('A94B43356A148BC4D6DAF7EA590B6816'),
  },
  {
    refused: dated('2024-01-31'),
    causes: [
      'spec.domain.sysinfos[0].bios.entries[0].value: Invalid value: "2024-01-31": must be a date of the form mm/dd/yyyy',
    ],
    accepted: dated('01/31/2024'),
  },
  {
    refused: dated('13/31/2024'),
    causes: [
      'spec.domain.sysinfos[0].bios.entries[0].value: Invalid value: "13/31/2024": must be a date of the form mm/dd/yyyy',
    ],
    accepted: dated('12/31/2024'),
  },
  {
    refused: dated('0/31/2024'),
    causes: [
      'spec.domain.sysinfos[0].bios.entries[0].value: Invalid value: "0/31/2024": must be a date of the form mm/dd/yyyy',
    ],
    accepted: dated('1/31/2024'),
  },
  {
    refused: dated('01/32/2024'),
    causes: [
      'spec.domain.sysinfos[0].bios.entries[0].value: Invalid value: "01/32/2024": must be a date of the form mm/dd/yyyy',
    ],
    accepted: dated('01/31/99'),
  },
  {
    refused: dated('01/0/2024'),
    causes: [
      'spec.domain.sysinfos[0].bios.entries[0].value: Invalid value: "01/0/2024": must be a date of the form mm/dd/yyyy',
    ],
    accepted: dated('01/1/2024'),
  },
])

const file = (entry: NonNullable<Sysinfo['entries']>[number]): Domain => sysinfo({ type: 'fwcfg', entries: [entry] })

testRule('sysinfo-fwcfg', [
  {
    refused: file({ name: 'opt/com.example/name', value: '' }),
    causes: ['spec.domain.sysinfos[0].entries[0].value: Required value: must be set, or file'],
    accepted: file({ name: 'opt/com.example/name', value: '', file: '/f' }),
  },
  {
    refused: file({ value: 'x' }),
    causes: ['spec.domain.sysinfos[0].entries[0].name: Required value: must be set'],
    accepted: file({ name: 'opt/com.example/name', value: 'x' }),
  },
  {
    refused: file({ name: 'example', value: 'x' }),
    causes: [
      'spec.domain.sysinfos[0].entries[0].name: Invalid value: "example": must start with opt/; e.g. opt/com.example/name',
    ],
    accepted: file({ name: 'opt/example', value: 'x' }),
  },
  {
    refused: file({ name: 'opt/ovmf/x', value: 'x' }),
    causes: [
      'spec.domain.sysinfos[0].entries[0].name: Invalid value: "opt/ovmf/x": must not start with opt/ovmf/ or opt/org.qemu/, which are reserved',
    ],
    accepted: file({ name: 'opt/com.example/x', value: 'x' }),
  },
  {
    refused: file({ name: 'opt/org.qemu/x', value: 'x' }),
    causes: [
      'spec.domain.sysinfos[0].entries[0].name: Invalid value: "opt/org.qemu/x": must not start with opt/ovmf/ or opt/org.qemu/, which are reserved',
    ],
    accepted: file({ name: 'opt/org.example/x', value: 'x' }),
  },
  {
    refused: file({ name: 'opt/com.example/name' }),
    causes: ['spec.domain.sysinfos[0].entries[0].value: Required value: must be set, or file'],
    accepted: file({ name: 'opt/com.example/name', value: 'x' }),
  },
  {
    refused: file({ name: 'opt/com.example/name', value: 'x', file: '/x' }),
    causes: ['spec.domain.sysinfos[0].entries[0].file: Forbidden: must not be set together with value'],
    accepted: file({ name: 'opt/com.example/name', file: '/x' }),
  },
])

testSilent('sysinfo-fields', [sysinfo({ bios: { entries: [...entries] } })])
testSilent('sysinfo-smbios', [
  sysinfo({ type: 'fwcfg', bios: { entries: [{ name: 'date', value: 'x' }] } }),
  sysinfo({ type: 'smbios', system: { entries: [{ name: 'manufacturer', value: 'x' }] } }),
  sysinfo({ type: 'smbios', system: { entries: [{ name: 'uuid' }, { name: 'uuid', value: '' }] } }),
  sysinfo({ type: 'smbios', bios: { entries: [{ name: 'date', value: '' }] } }),
  sysinfo({ type: 'smbios', bios: { entries: [{ name: 'date' }] } }),
  sysinfo({ type: 'smbios', system: { entries: [{ name: 'uuid', value: uuid }] } }),
])
testSilent('sysinfo-fwcfg', [sysinfo({ type: 'smbios', entries: [{ value: 'x' }] })])
