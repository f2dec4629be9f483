import { expect, test } from 'vitest'
import type { Cause } from '../../api/cause.ts'
import { renderCause } from '../../api/refusal.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { prepare } from '../../test/rule-table.ts'
import { checkRules } from './rules.ts'
import { unusedVolumes } from './volume.ts'

const claim = (name: string, readOnly = false) => ({ name, persistentVolumeClaim: { claimName: name, readOnly } })
const volumes = [claim('state'), claim('iso', true), { name: 'scratch', emptyDisk: { capacity: '1Gi' } }]

const shown = (cause: Cause): string => `${cause.field}: ${renderCause(cause)}`
const causesOf = (spec: Omit<VirtualMachineSpec, 'domain'>) =>
  checkRules(...prepare({}, spec))
    .causes.filter(({ rule }) => rule === 'device-state-volume')
    .map(shown)

test.each([
  ['state', []],
  ['sate', ['Not found: "sate": no volume has this name; spec.volumes has state, iso, scratch; did you mean "state"?']],
  [
    'scratch',
    ['Invalid value: "scratch": must name a volume of kind persistentVolumeClaim: others are deleted with the VM'],
  ],
  ['iso', ['Forbidden: must not name a volume that is readOnly']],
])('the volume %s', (deviceStateVolume, causes) => {
  expect(causesOf({ volumes, deviceStateVolume })).toEqual(causes.map((cause) => `spec.deviceStateVolume: ${cause}`))
})

test('a VM without volumes has none', () => {
  expect(causesOf({ deviceStateVolume: 'state' })).toEqual([
    'spec.deviceStateVolume: Not found: "state": spec.volumes is empty',
  ])
})

test('the volume is used, even if no disk uses it', () => {
  const [spec, context] = prepare({}, { volumes, deviceStateVolume: 'state' })
  expect(unusedVolumes({ ...context, spec, domain: spec.domain })).toEqual(['iso', 'scratch'])
})
