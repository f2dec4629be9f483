import { forbidden, forbidEach, invalid, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

const uuid = 'a94b4335-6a14-8bc4-d6da-f7ea590b6816'
const other = 'a94b4335-6a14-8bc4-d6da-f7ea590b6817'

/** The hexadecimal digits of a UUID, which can be written with or without dashes. */
const digitsOf = (text: string): string => text.replaceAll('-', '').toLowerCase()

/** mm/dd/yyyy, or mm/dd/yy for a year before 2000. */
const isDate = (text: string): boolean => {
  const [, month = 0, day = 0] = /^(\d{1,2})\/(\d{1,2})\/(?:\d{2}|\d{4})$/.exec(text)?.map(Number) ?? []
  return month >= 1 && month <= 12 && day >= 1 && day <= 31
}

const sysinfoSmbios: Rule = {
  id: 'sysinfo-smbios',
  description:
    'SMBIOS data must have the UUID of the domain and a date of the form mm/dd/yyyy; `os.smbios.mode: sysinfo` requires such data.',
  about: ['sysinfos', 'smbios'],
  *check({ domain: { sysinfos = [], uuid, os } }) {
    const smbios = sysinfos.filter(({ type }) => type === 'smbios')
    if (os?.smbios?.mode === 'sysinfo' && smbios.length === 0) {
      yield required('spec.domain.sysinfos', 'must have an item of type smbios when os.smbios.mode is sysinfo')
    }
    for (const [index, { type, system, bios }] of sysinfos.entries()) {
      if (type !== 'smbios') continue
      const at = `spec.domain.sysinfos[${index}]`
      for (const [place, { name, value }] of (system?.entries ?? []).entries()) {
        if (name !== 'uuid' || !value || uuid === undefined) continue
        const field = `${at}.system.entries[${place}].value`
        if (!/^[0-9a-f]{32}$/.test(digitsOf(value))) yield invalid(field, value, 'must be a UUID')
        else if (digitsOf(value) !== digitsOf(uuid))
          yield invalid(field, value, `must be the UUID of the domain, ${uuid}`)
      }
      for (const [place, { name, value }] of (bios?.entries ?? []).entries()) {
        if (name === 'date' && value && !isDate(value)) {
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
  description: 'Type `smbios` supports tables only, and type `fwcfg` entries only.',
  about: ['sysinfos'],
  *check({ domain: { sysinfos = [] } }) {
    for (const [index, one] of sysinfos.entries()) {
      if (one.type === undefined) continue
      const others = fieldsOf[one.type === 'smbios' ? 'fwcfg' : 'smbios']
      yield* forbidEach(one, `spec.domain.sysinfos[${index}]`, others, `must not be set for type ${one.type}`)
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
    'The name of a fw_cfg entry must start with `opt/`, but not with the prefixes of QEMU and OVMF; it must have either a value or a file.',
  about: ['sysinfos'],
  *check({ domain: { sysinfos = [] } }) {
    for (const [index, { type, entries = [] }] of sysinfos.entries()) {
      if (type !== 'fwcfg') continue
      for (const [place, { name, value, file }] of entries.entries()) {
        const at = `spec.domain.sysinfos[${index}].entries[${place}]`
        if (name === undefined) yield required(`${at}.name`, 'must be set')
        else if (!name.startsWith('opt/'))
          yield invalid(`${at}.name`, name, 'must start with opt/', 'e.g. opt/com.example/name')
        else if (/^opt\/(?:ovmf|org\.qemu)\//.test(name))
          yield invalid(`${at}.name`, name, 'must not start with opt/ovmf/ or opt/org.qemu/, which are reserved')
        // libvirt takes an empty value for an absent one.
        if (!value && file === undefined) yield required(`${at}.value`, 'must be set, or file')
        if (value && file !== undefined) yield forbidden(`${at}.file`, file, 'must not be set together with value')
      }
    }
  },
  example: example(
    { sysinfos: [{ type: 'fwcfg', entries: [{ name: 'example', value: 'x' }] }] },
    { sysinfos: [{ type: 'fwcfg', entries: [{ name: 'opt/com.example/name', value: 'x' }] }] },
  ),
}

export const sysinfoRules: readonly Rule[] = [sysinfoFields, sysinfoSmbios, sysinfoFwcfg]
