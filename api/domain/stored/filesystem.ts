import { isRecord } from '../../schema.ts'
import { type JsonObject, type Normalization, omit, within } from './member.ts'

/** What libvirt stores for file systems. */
export const filesystem: Normalization = {
  'devices.filesystems': (filesystem) => storedFilesystem(filesystem),
}

/** `binary` and `idmap` apply only to virtiofs. */
const storedFilesystem = (filesystem: JsonObject): JsonObject => {
  const { driver } = filesystem
  const type = isRecord(driver) ? driver['type'] : undefined
  const own = omit(filesystem, type === 'virtiofs' ? [] : ['binary', 'idmap'])
  const served = type === undefined ? within(own, 'driver', (json) => omit(json, ['wrpolicy', 'format'])) : own
  return octalMode(octalMode(served, 'fmode'), 'dmode')
}

/** Pads an octal mode to four digits. */
const octalMode = (filesystem: JsonObject, key: string): JsonObject => {
  const value = filesystem[key]
  return typeof value === 'string' && /^[0-7]{1,4}$/.test(value)
    ? { ...filesystem, [key]: value.padStart(4, '0') }
    : filesystem
}
