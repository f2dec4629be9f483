import { expect, test } from 'vitest'
import type { Origin } from '../../api/cause.ts'
import type { Domain } from '../../api/domain/domain.ts'
import capabilities from '../profiles/qemu-10-x86_64.json' with { type: 'json' }
import { readCapabilities } from '../../api/capabilities.ts'
import { reach } from './reach.ts'
import { checkRules } from './rules.ts'

const user: Origin = { by: 'user' }

const check = (domain: Domain, granted: readonly string[] = []) =>
  checkRules(
    { domain },
    {
      capabilities: readCapabilities(capabilities),
      originOf: () => user,
      isGranted: (path) => granted.includes(path),
    },
  ).causes.filter(({ rule }) => rule === 'host-reach')

const bridge: Domain = { devices: { interfaces: [{ type: 'bridge', source: { bridge: 'br0' } }] } }
const emulator: Domain = { devices: { emulator: '/usr/bin/evil' } }

const bridgeFields = ['spec.domain.devices.interfaces[0].type', 'spec.domain.devices.interfaces[0].source.bridge']

test.each<[string, Domain, string[], string[]]>([
  ['an emulator is refused', emulator, [], ['spec.domain.devices.emulator']],
  ['a granted emulator is not', emulator, ['spec.domain.devices.emulator'], []],
  ['each field of a bridge is refused', bridge, [], bridgeFields],
  ['a field of a bridge that is not granted is refused', bridge, bridgeFields.slice(0, 1), bridgeFields.slice(1)],
  [
    'an element is refused as a whole',
    { devices: { vsock: { cid: { auto: true } } } },
    [],
    ['spec.domain.devices.vsock'],
  ],
  ['user networking does not leave the pod', { devices: { interfaces: [{ type: 'user' }] } }, [], []],
  [
    'a network disk over TCP does not reach the host',
    { devices: { disks: [{ type: 'network', source: { protocol: 'iscsi', name: 'x', host: { name: 'h' } } }] } },
    [],
    [],
  ],
])('%s', (_, domain, granted, fields) => {
  expect(check(domain, granted).map(({ field }) => field)).toEqual(fields)
})

test('a path that the VM does not have is not granted', () => {
  const context = { spec: { domain: {} }, domain: emulator, originOf: () => user, isGranted: () => true }
  const [first] = reach.check({ ...context, capabilities: readCapabilities(capabilities) })
  expect(first?.field).toBe('spec.domain.devices.emulator')
})

test('a cause names the field, its value, its origin, and how to get it granted', () => {
  expect(check(emulator)).toEqual([
    {
      rule: 'host-reach',
      field: 'spec.domain.devices.emulator',
      value: '/usr/bin/evil',
      reason: 'FieldValueForbidden',
      message: 'reaches the host; only a ClusterVirtualMachinePreset can set it',
      suggestion: 'ask an operator for a ClusterVirtualMachinePreset that injects it',
      origin: user,
    },
  ])
})

test.each<[Domain, string | undefined]>([
  [
    bridge,
    'use the network of the pod (type: user), or ask an operator for a ClusterVirtualMachinePreset that injects it',
  ],
  [
    { devices: { disks: [{ type: 'file', source: { file: '/d' }, target: { dev: 'vda' } }] } },
    'use a volume of the VM (type: volume), or ask an operator for a ClusterVirtualMachinePreset that injects it',
  ],
])('a cause names what a user can have in place of a file or network of the host', (domain, suggestion) =>
  expect(check(domain)[0]?.suggestion).toBe(suggestion),
)

test('thousands of servers in a granted source are checked in a time that is linear in their number', () => {
  const count = 8000
  const hosts = Array.from({ length: count }, (_, index) => ({ transport: 'unix' as const, socket: `/run/${index}` }))
  const source = { protocol: 'rbd' as const, name: 'pool/image', config: { file: '/etc/ceph/a.conf' }, hosts }
  const since = process.cpuUsage()
  const found = check({ devices: { disks: [{ type: 'network', source, target: { dev: 'vda' } }] } }, [
    'spec.domain.devices.disks[0].source.config.file',
  ])
  const { user: userTime, system } = process.cpuUsage(since)
  // The most causes that are reported.
  expect(found).toHaveLength(256)
  // A third of a second without other load. To compare each with all others takes twenty seconds.
  expect((userTime + system) / 1e6).toBeLessThan(5)
})
