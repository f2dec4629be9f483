import { expect, test } from 'vitest'
import type { Capabilities } from '../api/capabilities.ts'
import { capabilitySetName } from '../api/node-capability-set.ts'
import type { PublishedProfile } from '../api/node-profile.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { nodeProfile } from '../test/node-profile.ts'
import { resolveProfiles } from './capability-sets.ts'

const name = capabilitySetName(bundledCapabilities)
const sharing = (capabilitySetName: string): PublishedProfile => {
  const { spec, ...profile } = nodeProfile('one')
  const { capabilities: _inSet, ...own } = spec
  return { ...profile, spec: { ...own, capabilitySetName } }
}
const changed = (over: Partial<Capabilities>) => nodeProfile('one', { ...bundledCapabilities, ...over })
const { machines, firmware, accelerators } = bundledCapabilities
const models = accelerators.kvm?.cpuModels ?? []
const deleted = (profile: PublishedProfile): PublishedProfile => ({
  ...profile,
  metadata: { ...profile.metadata, deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: ['example.org/x'] },
})

test.each<[string, PublishedProfile, boolean]>([
  ['a profile with capabilities', nodeProfile('one'), true],
  ['a profile that names a set', sharing(name), true],
  ['not a profile that names no set', sharing('other'), false],
  ['not a profile that is being deleted', deleted(nodeProfile('one')), false],
  ['not one that names a set', deleted(sharing(name)), false],
  ['not a profile that violates its schema', changed({ emulator: '/bin/sh' }), false],
  [
    'not a profile with two aliases of one name',
    changed({ machines: machines.map((one) => ({ ...one, alias: 'q35' })) }),
    false,
  ],
  [
    'not a profile with two defaults',
    changed({ machines: machines.map((one) => ({ ...one, isDefault: true })) }),
    false,
  ],
  [
    'not a profile with CPU models twice',
    changed({ accelerators: { kvm: { cpuModels: [...models, ...models] } } }),
    false,
  ],
  ['not a profile whose firmware is not sorted', changed({ firmware: firmware.toReversed() }), false],
])('counts: %s', (_, profile, isCounted) => {
  const set = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'NodeCapabilitySet',
    metadata: { name },
    spec: { capabilities: structuredClone(bundledCapabilities) },
  } as const
  const counted = resolveProfiles([profile], [set])
  expect(counted).toEqual(isCounted ? [nodeProfile('one')] : [])
})
