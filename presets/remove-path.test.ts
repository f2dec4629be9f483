import { expect, test } from 'vitest'
import { parseRemovePath, type RemoveStep } from './remove-path.ts'

const key = (name: string): RemoveStep => ({ kind: 'key', key: name })
const index = (at: number): RemoveStep => ({ kind: 'index', index: at })
const match = (path: readonly string[], value: string): RemoveStep => ({ kind: 'match', path, value })

test.each<[string, RemoveStep[]]>([
  ['domain', [key('domain')]],
  ['domain.devices.disks', [key('domain'), key('devices'), key('disks')]],
  ['disks[0]', [key('disks'), index(0)]],
  ['disks[999999].driver', [key('disks'), index(999_999), key('driver')]],
  ['disks[1000000]', [key('disks'), key('1000000')]],
  ['disks[target.dev=vdb]', [key('disks'), match(['target', 'dev'], 'vdb')]],
  ['disks[serial=]', [key('disks'), match(['serial'], '')]],
  ['disks[a=b=c]', [key('disks'), match(['a'], 'b=c')]],
  ['labels[=a]', [key('labels'), key('=a')]],
  ['nodeSelector[kubernetes.io/arch]', [key('nodeSelector'), key('kubernetes.io/arch')]],
  ['lists[0][1]', [key('lists'), index(0), index(1)]],
])('%s', (text, steps) => expect(parseRemovePath(text)).toEqual({ text, steps }))

test.each([
  '',
  '.',
  '.domain',
  '[0]',
  '[0].domain',
  'domain.',
  'domain..devices',
  'disks[',
  'disks[]',
  'disks]',
  'disks[0]driver',
  'a[0].[1]',
])('%j is no path', (text) => expect(parseRemovePath(text)).toBe(undefined))
