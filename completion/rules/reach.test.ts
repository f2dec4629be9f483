import { expect, test } from 'vitest'
import type { Origin } from '../../api/cause.ts'
import type { Domain } from '../../api/domain/domain.ts'
import capabilities from '../profiles/qemu-10-x86_64.json' with { type: 'json' }
import { readCapabilities } from '../../api/capabilities.ts'
import { checkRules } from './rules.ts'

const user: Origin = { by: 'user' }
const cluster: Origin = { by: 'preset', name: 'bridges', revision: 'r1' }
const namespaced: Origin = { by: 'preset', namespace: 'default', name: 'bridges', revision: 'r1' }
const byDefault: Origin = { by: 'default', rule: 'emulator' }

const judge = (domain: Domain, origin: Origin, allowHostReach = false) =>
  checkRules(
    { domain },
    { capabilities: readCapabilities(capabilities), originOf: () => origin, allowHostReach },
  ).causes.filter(({ rule }) => rule === 'host-reach')

const bridge: Domain = { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' } }] } }
const emulator: Domain = { devices: { emulator: '/usr/bin/evil' } }

const bridgeFields = ['spec.domain.devices.interfaces[0].type', 'spec.domain.devices.interfaces[0].source.bridge']

const rows: [string, Domain, Origin, string[]][] = [
  ['a user may not name an emulator', emulator, user, ['spec.domain.devices.emulator']],
  ['completion may', emulator, byDefault, []],
  ['a user gets no bridge', bridge, user, bridgeFields],
  ['a cluster preset grants one', bridge, cluster, []],
  ['a namespaced preset does not', bridge, namespaced, bridgeFields],
  ['user networking is the guest’s own', { devices: { interfaces: [{ type: 'user' }] } }, user, []],
  [
    'a network disk over TCP is the pod’s',
    { devices: { disks: [{ type: 'network', source: { protocol: 'iscsi', name: 'x', host: { name: 'h' } } }] } },
    user,
    [],
  ],
]

test.each(rows)('%s', (_, domain, origin, fields) => {
  expect(judge(domain, origin).map(({ field }) => field)).toEqual(fields)
})

test('a cause names the field, its value, who put it there, and how to get it granted', () => {
  expect(judge(emulator, user)).toEqual([
    {
      rule: 'host-reach',
      field: 'spec.domain.devices.emulator',
      value: '/usr/bin/evil',
      reason: 'FieldValueForbidden',
      message: 'reaches the host; a VM gets it only from a ClusterVirtualMachinePreset',
      suggestion: 'ask an operator for a ClusterVirtualMachinePreset that injects it',
      origin: user,
    },
  ])
})

test('offline the host may be reached when asked to', () => {
  expect(judge(emulator, user, true)).toEqual([])
})
