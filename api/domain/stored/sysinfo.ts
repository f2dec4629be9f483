import { isRecord } from '../../schema.ts'
import { type JsonObject, type Normalization, omit } from './member.ts'

export const sysinfo: Normalization = {
  sysinfos: (sysinfo) => omit(sysinfo, emptyTables(sysinfo)),
  'sysinfos.bios': (table) => withoutEmptyEntries(table),
  'sysinfos.system': (table) => withoutEmptyEntries(table),
  'sysinfos.baseBoards': (table) => withoutEmptyEntries(table),
  'sysinfos.chassis': (table) => withoutEmptyEntries(table),
}

/** Without a value, the guest reads the same as without the entry. */
const withoutEmptyEntries = (table: JsonObject): JsonObject => {
  const { entries } = table
  if (!Array.isArray(entries)) return table
  return { ...table, entries: entries.filter((entry) => !isRecord(entry) || (entry['value'] ?? '') !== '') }
}

const emptyTables = (sysinfo: JsonObject): string[] =>
  ['bios', 'system', 'chassis'].filter((key) => {
    const { [key]: table } = sysinfo
    return isRecord(table) && Array.isArray(table['entries']) && table['entries'].length === 0
  })
