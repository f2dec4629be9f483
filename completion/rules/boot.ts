import { attachedAliasPrefix } from '../../api/attached-volume.ts'
import { numberOf } from '../defaults/reading.ts'
import { allDevices } from './device.ts'
import { duplicate, forbidden, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const bootOrder: Rule = {
  id: 'boot-order',
  description: '`boot.order` must be unique among devices, and cannot be combined with `os.boots`.',
  about: ['boot'],
  *check({ domain }) {
    const seen = new Map<number, string>()
    const hasBoots = (domain.os?.boots?.length ?? 0) > 0
    for (const { at, device } of allDevices(domain)) {
      const order = numberOf(device.boot?.order)
      if (order === undefined) continue
      const other = seen.get(order)
      if (other === undefined) seen.set(order, at)
      else yield duplicate(`${at}.boot.order`, order, `is already the boot order of ${other}`)
      if (hasBoots && other === undefined && seen.size === 1) {
        yield forbidden(
          'spec.domain.os.boots',
          undefined,
          `must not be set together with boot.order of a device, here ${at}`,
        )
      }
    }
  },
  example: example(
    { devices: { interfaces: [1, 1].map((order) => ({ type: 'user', boot: { order } })) } },
    { devices: { interfaces: [1, 2].map((order) => ({ type: 'user', boot: { order } })) } },
  ),
}

const singleTables = new Set(['slic', 'msdm'])

const acpiTables: Rule = {
  id: 'acpi-tables',
  description: 'QEMU has no ACPI tables of type rawset. At most one of each of the types slic and msdm is allowed.',
  about: ['tables'],
  *check({ domain }) {
    const seen = new Set<string>()
    for (const [index, { type }] of (domain.os?.acpi?.tables ?? []).entries()) {
      if (type === 'rawset') {
        const message = 'is not supported by QEMU, only by Xen'
        yield unsupported(`spec.domain.os.acpi.tables[${index}].type`, type, message, 'use type raw for each table')
      }
      if (type === undefined || !singleTables.has(type)) continue
      if (seen.has(type))
        yield duplicate(
          `spec.domain.os.acpi.tables[${index}].type`,
          type,
          'is already the type of another table; only one is allowed',
        )
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
  description: 'Aliases that begin with `ua-` must be unique among devices.',
  about: ['alias'],
  *check({ domain }) {
    const seen = new Map<string, string>()
    for (const { kind, at, device } of allDevices(domain)) {
      const name = device.alias?.name
      // libvirt replaces any other alias; the first console is the first serial port under another name.
      if (name === undefined || !name.startsWith('ua-') || kind === 'consoles') continue
      const other = seen.get(name)
      if (other === undefined) seen.set(name, at)
      else yield duplicate(`${at}.alias.name`, name, `is already the alias of ${other}`)
    }
  },
  example: example(
    { devices: { interfaces: ['ua-a', 'ua-a'].map((name) => ({ type: 'user', alias: { name } })) } },
    { devices: { interfaces: ['ua-a', 'ua-b'].map((name) => ({ type: 'user', alias: { name } })) } },
  ),
}

const aliasReserved: Rule = {
  id: 'alias-reserved',
  description: 'Aliases that begin with `ua-attached-` are reserved for attached volumes.',
  about: ['alias'],
  *check({ domain }) {
    for (const { at, device } of allDevices(domain)) {
      const name = device.alias?.name
      // The launcher would take the device for the disk of an attached volume, and detach it.
      if (name?.startsWith(attachedAliasPrefix) !== true) continue
      const message = `aliases that begin with ${attachedAliasPrefix} are reserved for spec.attachedVolumes`
      yield forbidden(`${at}.alias.name`, name, message, 'choose another name after ua-')
    }
  },
  example: example(
    { devices: { interfaces: [{ type: 'user', alias: { name: 'ua-attached-data' } }] } },
    { devices: { interfaces: [{ type: 'user', alias: { name: 'ua-data' } }] } },
  ),
}

export const bootRules: readonly Rule[] = [bootOrder, acpiTables, aliasUnique, aliasReserved]
