import { numberOf } from '../defaults/reading.ts'
import { allDevices } from './device.ts'
import { duplicate, forbidden } from './finding.ts'
import { example, type Rule } from './rule.ts'

const bootOrder: Rule = {
  id: 'boot-order',
  description:
    'No two devices have the same rank to boot from, and ranks of devices replace the list of kinds in `os`.',
  about: ['boot'],
  *check({ domain }) {
    const seen = new Map<number, string>()
    const hasBoots = (domain.os?.boots?.length ?? 0) > 0
    for (const { at, device } of allDevices(domain)) {
      const order = numberOf(device.boot?.order)
      if (order === undefined) continue
      const other = seen.get(order)
      if (other === undefined) seen.set(order, at)
      else yield duplicate(`${at}.boot.order`, order, `is the rank of ${other} as well`)
      if (hasBoots && other === undefined && seen.size === 1) {
        yield forbidden('spec.domain.os.boots', undefined, `may not be given beside boot.order of devices, as of ${at}`)
      }
    }
  },
  example: example(
    { devices: { interfaces: [1, 1].map((order) => ({ type: 'user', boot: { order } })) } },
    { devices: { interfaces: [1, 2].map((order) => ({ type: 'user', boot: { order } })) } },
  ),
}

/** Of these there can be one. */
const singleTables = new Set(['slic', 'msdm', 'rawset'])

const acpiTables: Rule = {
  id: 'acpi-tables',
  description: 'There is one ACPI table of type slic, one of msdm and one of rawset.',
  about: ['tables'],
  *check({ domain }) {
    const seen = new Set<string>()
    for (const [index, { type }] of (domain.os?.acpi?.tables ?? []).entries()) {
      if (type === undefined || !singleTables.has(type)) continue
      if (seen.has(type))
        yield duplicate(`spec.domain.os.acpi.tables[${index}].type`, type, 'is the type of another table as well')
      seen.add(type)
    }
  },
  example: example(
    { os: { type: { os: 'hvm' }, acpi: { tables: ['/a', '/b'].map((value) => ({ type: 'slic', value })) } } },
    { os: { type: { os: 'hvm' }, acpi: { tables: ['/a', '/b'].map((value) => ({ type: 'raw', value })) } } },
  ),
}

const aliasUnique: Rule = {
  id: 'alias-unique',
  description: 'No two devices have the same alias.',
  about: ['alias'],
  *check({ domain }) {
    const seen = new Map<string, string>()
    for (const { kind, at, device } of allDevices(domain)) {
      const name = device.alias?.name
      // Others are libvirt's own and count for nothing; the first console is the first serial port under another name.
      if (name === undefined || !name.startsWith('ua-') || kind === 'consoles') continue
      const other = seen.get(name)
      if (other === undefined) seen.set(name, at)
      else yield duplicate(`${at}.alias.name`, name, `is the alias of ${other} as well`)
    }
  },
  example: example(
    { devices: { interfaces: ['ua-a', 'ua-a'].map((name) => ({ type: 'user', alias: { name } })) } },
    { devices: { interfaces: ['ua-a', 'ua-b'].map((name) => ({ type: 'user', alias: { name } })) } },
  ),
}

export const bootRules: readonly Rule[] = [bootOrder, acpiTables, aliasUnique]
