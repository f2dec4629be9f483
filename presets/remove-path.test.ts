import { expect, test } from 'vitest'
import { canRemove, parseRemovePath, type RemoveStep } from './remove-path.ts'

const key = (name: string): RemoveStep => ({ kind: 'key', key: name })
const index = (at: number): RemoveStep => ({ kind: 'index', index: at })
const match = (path: readonly string[], value: string): RemoveStep => ({
  kind: 'match',
  at: path.join('.'),
  path,
  value,
})

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
])('%j is not a path', (text) => expect(parseRemovePath(text)).toBe(undefined))

test.each<[string, string, boolean]>([
  ['domain.title', 'spec.domain.title', true],
  ['domain.devices.tpms[0]', 'spec.domain.devices.tpms[0].model', true],
  ['domain.devices.tpms[0]', 'spec.domain.devices.tpms[1]', false],
  ['domain.devices.disks[target.dev=vdb]', 'spec.domain.devices.disks[3]', true],
  ['domain.devices.disks[target.dev=vdb]', 'spec.domain.devices.disks', false],
  ['nodeSelector[a/b]', 'spec.nodeSelector[a/b]', true],
  ['nodeSelector.1', 'spec.nodeSelector.1', true],
  ['domain.devices.disks[0].source.host', 'spec.domain.devices.disks[0].source.host.name', true],
  ['domain.devices.disks[0].source.host', 'spec.domain.devices.disks[0].source.hosts[1]', true],
  ['domain.devices.disks[0].source.host.port', 'spec.domain.devices.disks[0].source.hosts[1].name', false],
  ['domain.devices.disks[0].source.hosts[0]', 'spec.domain.devices.disks[0].source.host', true],
  ['domain.devices.disks[0].source.hosts[1]', 'spec.domain.devices.disks[0].source.host', false],
  ['domain.title', 'spec.domain.uuid', false],
  ['domain.title', 'domain.title', false],
  ['labels', 'metadata.labels', false],
  ['domain.title.x', 'spec.domain.title', false],
  ['domain.devices.disks[target.dev=vdb]', 'spec.domain.devices.disks.x', false],
])('%s can remove %s: %s', (text, path, expected) => {
  const parsed = parseRemovePath(text)
  expect(parsed !== undefined && canRemove([parsed], path)).toBe(expected)
})
