import { forbidden, forbidEach, invalid, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

const uuid = 'a94b4335-6a14-8bc4-d6da-f7ea590b6816'
const other = 'a94b4335-6a14-8bc4-d6da-f7ea590b6817'

/** A UUID may be written with dashes or without. */
const digitsOf = (text: string): string => text.replaceAll('-', '').toLowerCase()

/** mm/dd/yyyy, or two digits of a year before 2000. */
const isDate = (text: string): boolean => {
  const [, month, day, year] = /^(\d{1,2})\/(\d{1,2})\/(\d{2}|\d{4})$/.exec(text)?.map(Number) ?? []
  if (month === undefined || day === undefined || year === undefined) return false
  return month >= 1 && month <= 12 && day >= 1 && day <= 31
}

const sysinfoSmbios: Rule = {
  id: 'sysinfo-smbios',
  description:
    'What the guest reads in SMBIOS has the UUID of the domain and a date of the form mm/dd/yyyy, and is there where it is asked for.',
  about: ['sysinfos', 'smbios'],
  *check({ domain: { sysinfos = [], uuid, os } }) {
    const smbios = sysinfos.filter(({ type }) => type === 'smbios')
    if (os?.smbios?.mode === 'sysinfo' && smbios.length === 0) {
      yield required('spec.domain.sysinfos', 'must have one of type smbios, since os.smbios.mode is sysinfo')
    }
    for (const [index, { type, system, bios }] of sysinfos.entries()) {
      if (type !== 'smbios') continue
      const at = `spec.domain.sysinfos[${index}]`
      for (const [place, { name, value }] of (system?.entries ?? []).entries()) {
        if (name !== 'uuid' || value === undefined || uuid === undefined) continue
        const field = `${at}.system.entries[${place}].value`
        if (!/^[0-9a-f]{32}$/.test(digitsOf(value))) yield invalid(field, value, 'must be a UUID')
        else if (digitsOf(value) !== digitsOf(uuid))
          yield invalid(field, value, `must be the UUID of the domain, ${uuid}`)
      }
      for (const [place, { name, value }] of (bios?.entries ?? []).entries()) {
        if (name === 'date' && value !== undefined && !isDate(value)) {
          yield invalid(`${at}.bios.entries[${place}].value`, value, 'must be a date of the form mm/dd/yyyy')
        }
      }
    }
  },
  example: example(
    { uuid, sysinfos: [{ type: 'smbios', system: { entries: [{ name: 'uuid', value: other }] } }] },
    { uuid, sysinfos: [{ type: 'smbios', system: { entries: [{ name: 'uuid', value: uuid }] } }] },
  ),
}

const fieldsOf = { smbios: ['bios', 'system', 'baseBoards', 'chassis', 'oemStrings'], fwcfg: ['entries'] } as const

const sysinfoFields: Rule = {
  id: 'sysinfo-fields',
  description: 'SMBIOS has tables, and the fw_cfg device files.',
  about: ['sysinfos'],
  *check({ domain: { sysinfos = [] } }) {
    for (const [index, one] of sysinfos.entries()) {
      if (one.type === undefined) continue
      const others = fieldsOf[one.type === 'smbios' ? 'fwcfg' : 'smbios']
      yield* forbidEach(one, `spec.domain.sysinfos[${index}]`, others, `may not be given for type ${one.type}`)
    }
  },
  example: example(
    { sysinfos: [{ type: 'fwcfg', bios: { entries: [{ name: 'vendor', value: 'x' }] } }] },
    { sysinfos: [{ type: 'smbios', bios: { entries: [{ name: 'vendor', value: 'x' }] } }] },
  ),
}

const sysinfoFwcfg: Rule = {
  id: 'sysinfo-fwcfg',
  description:
    'A file of the fw_cfg device is named opt/…, but not as QEMU and OVMF name theirs, and has its content in one place.',
  about: ['sysinfos'],
  *check({ domain: { sysinfos = [] } }) {
    for (const [index, { type, entries = [] }] of sysinfos.entries()) {
      if (type !== 'fwcfg') continue
      for (const [place, { name, value, file }] of entries.entries()) {
        const at = `spec.domain.sysinfos[${index}].entries[${place}]`
        if (name === undefined) yield required(`${at}.name`, 'must be given')
        else if (!name.startsWith('opt/'))
          yield invalid(`${at}.name`, name, 'must begin with opt/', 'e.g. opt/com.example/name')
        else if (/^opt\/(?:ovmf|org\.qemu)\//.test(name))
          yield invalid(`${at}.name`, name, 'is reserved for QEMU and its firmware')
        if (value === undefined && file === undefined) yield required(`${at}.value`, 'must be given, or file')
        if (value !== undefined && file !== undefined)
          yield forbidden(`${at}.file`, file, 'may not be given beside value')
      }
    }
  },
  example: example(
    { sysinfos: [{ type: 'fwcfg', entries: [{ name: 'example', value: 'x' }] }] },
    { sysinfos: [{ type: 'fwcfg', entries: [{ name: 'opt/com.example/name', value: 'x' }] }] },
  ),
}

export const sysinfoRules: readonly Rule[] = [sysinfoFields, sysinfoSmbios, sysinfoFwcfg]
