import { expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import type { Preset } from '../api/preset.ts'
import { hostPaths, needsGrant } from './grant.ts'

const bridge: Domain = {
  title: 'a',
  devices: {
    interfaces: [{ type: 'user' }, { type: 'bridge', source: { bridge: 'br0' }, model: { type: 'virtio' } }],
    vsock: { model: 'virtio', cid: { auto: true } },
  },
}

test('host-reaching fields are found, an element without the fields below it', () => {
  expect(hostPaths({ domain: bridge })).toEqual([
    'spec.domain.devices.interfaces[1].type',
    'spec.domain.devices.interfaces[1].source.bridge',
    'spec.domain.devices.vsock',
  ])
  expect(hostPaths({ domain: { title: 'a', devices: { interfaces: [{ type: 'user' }] } } })).toEqual([])
})

test('a device of the node is one place, and so is a claim', () => {
  const hostDevices = [{ name: 'gpu', resourceName: 'example.com/gpu' }]
  const resourceClaims = [{ name: 'gpus', resourceClaimTemplateName: 'gpus' }]
  const spec = { selector: {}, hostDevices, resourceClaims }
  expect(hostPaths(spec)).toEqual(['spec.hostDevices[0]', 'spec.resourceClaims[0]'])
  const kind = 'ClusterVirtualMachinePreset'
  expect(needsGrant({ apiVersion: 'virtset.io/v1alpha1', kind, metadata: { name: 'p' }, spec })).toBe(true)
})

test('a tap of a plugin that is not virtset’s own, or in a network of another namespace, is one place', () => {
  const taps = [
    { dev: 'tap0', plugin: 'routed' },
    { dev: 'tap1', plugin: 'lab' },
    { dev: 'tap2', plugin: 'redirect', network: 'lab' },
    { dev: 'tap3', plugin: 'redirect', network: 'infra/lab' },
  ]
  expect(hostPaths({ taps })).toEqual(['spec.taps[1]', 'spec.taps[3]'])
})

test.each<[string, Preset['kind'], Domain | undefined, boolean]>([
  ['a cluster preset with a host-reaching field', 'ClusterVirtualMachinePreset', bridge, true],
  ['a cluster preset without one', 'ClusterVirtualMachinePreset', { title: 'a' }, false],
  ['a cluster preset without a domain', 'ClusterVirtualMachinePreset', undefined, false],
  ['a preset of a namespace, which is refused anyway', 'VirtualMachinePreset', bridge, false],
])('%s needs a grant: %s, %j, %s', (_, kind, domain, expected) => {
  const spec = { selector: {}, ...(domain === undefined ? {} : { domain }) }
  expect(needsGrant({ apiVersion: 'virtset.io/v1alpha1', kind, metadata: { name: 'p' }, spec })).toBe(expected)
})
