import { describe, expect, test } from 'vitest'
import type { Origin } from '../api/cause.ts'
import { vmWith } from '../test/presets/make.ts'
import { originOf, originWithin, valueAtPath } from './origins.ts'

const small: Origin = { by: 'preset', namespace: 'team', name: 'small', revision: '0123456789abcdef' }
const site: Origin = { by: 'preset', name: 'site', revision: 'fedcba9876543210' }
const bus: Origin = { by: 'default', rule: 'disk-bus' }
const user: Origin = { by: 'user' }

const disks = [{ target: { dev: 'vda', bus: 'virtio' } }, { target: { dev: 'vdb', bus: 'virtio' } }]
const vm = vmWith(
  { type: 'kvm', cpu: { mode: 'host-model' }, devices: { disks } },
  { labels: { app: 'web', '1': 'x' } },
)
const origins = new Map<string, Origin>([
  ['metadata.labels.1', small],
  ['spec.domain.cpu', small],
  ['spec.domain.devices.disks[0].target.bus', bus],
  ['spec.domain.devices.disks[1].target.dev', site],
  ['spec.domain.devices.disks[1].target.bus', site],
])

test.each<[string, unknown, Origin]>([
  ['spec.domain.type', 'kvm', user],
  ['spec.domain.cpu.mode', 'host-model', small],
  ['spec.domain.devices.disks[0].target.bus', 'virtio', bus],
  ['spec.domain.devices.disks[2].target.bus', undefined, user],
  ['spec.domain.type.constructor', undefined, user],
])('the value at %s has an origin', (path, value, origin) => {
  expect([valueAtPath(vm, path), originOf(origins, path)]).toEqual([value, origin])
})

describe('the origin of a whole value', () => {
  const leafOrigin = (path: string): Origin => {
    if (path.endsWith('.user')) return user
    if (path.endsWith('.small')) return small
    return path.endsWith('.site') ? site : bus
  }
  test.each<[string, unknown, Origin]>([
    ['the user if any leaf is theirs', { site: 1, deep: [{ small: 1 }, { user: 1 }] }, user],
    ['else a preset of a namespace', { site: 1, deep: [{ small: {} }] }, small],
    ['else the origin of the first leaf', { site: [], bus: 1 }, site],
    ['a default if all are defaults', { bus: 1 }, bus],
  ])('%s', (_, value, origin) => {
    expect(originWithin(value, 'spec', leafOrigin)).toEqual(origin)
  })
})
