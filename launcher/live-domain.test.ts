import { expect, test } from 'vitest'
import type { JsonObject } from '../runtime/launcher-api.ts'
import { consoleAlias, hasOpenTray } from './live-domain.ts'

const serial = (name: string, port?: number): JsonObject => ({
  type: 'pty',
  alias: { name },
  target: port === undefined ? {} : { port },
})

test.each<[string, JsonObject[], string | null]>([
  ['the first port by default', [serial('serial0', 0), serial('serial1', 1)], null],
  ['port 0, wherever it is listed', [serial('serial0', 1), serial('serial1', 0)], 'serial1'],
  ['the lowest of three', [serial('serial0', 3), serial('serial1', 2), serial('serial2', 1)], 'serial2'],
  ['the first of equal ones', [serial('serial0'), serial('serial1')], null],
  ['libvirt’s choice without an alias', [serial('serial0', 1), { type: 'pty', target: { port: 0 } }], null],
  ['libvirt’s choice without serial ports', [], null],
])('the console is %s', (_, serials, alias) => {
  expect(consoleAlias({ devices: { serials } })).toBe(alias)
})

test('a domain that is unknown has the console of libvirt’s choice', () => expect(consoleAlias(undefined)).toBeNull())

test('the tray of a drive is open if libvirt states that of this drive', () => {
  const disks = [{ target: { dev: 'sda' } }, { target: { dev: 'sdb', tray: 'open' } }]
  expect(['sda', 'sdb', 'sdc'].map((target) => hasOpenTray({ devices: { disks } }, target))).toEqual([
    false,
    true,
    false,
  ])
  expect(hasOpenTray(undefined, 'sdb')).toBe(false)
})
