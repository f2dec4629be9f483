import { expect, test } from 'vitest'
import { checkHostDevices, hostDeviceResources } from './host-device.ts'

const check = (name: string, resourceName: string) =>
  checkHostDevices([{ name, resourceName }], 'spec.hostDevices').map(({ field, message }) => `${field}: ${message}`)

test.each([
  ['gpu', 'nvidia.com/GA102GL_A10'],
  ['nic-0', 'openshift.io/mlx_nics'],
])('a device %s of resource %s is valid', (name, resourceName) => {
  expect(check(name, resourceName)).toEqual([])
})

const resource = 'spec.hostDevices[0].resourceName'

test.each<[string, string, string, string]>([
  ['a name that no alias can have', 'GPU 1', 'example.com/gpu', 'spec.hostDevices[0].name: must be at most 63'],
  ['a resource without a domain', 'gpu', 'cpu', `${resource}: must have the domain of its device plugin`],
  ['a name that is none', 'gpu', 'example.com/', `${resource}: must be letters, digits`],
  ['a resource of Kubernetes', 'gpu', 'kubernetes.io/gpu', `${resource}: must be an extended resource`],
  ['a resource below it', 'gpu', 'pod.kubernetes.io/gpu', `${resource}: must be an extended resource`],
  ['the key of a quota', 'gpu', 'requests.example.com/gpu', `${resource}: must be an extended resource`],
  ['a resource of virtset', 'gpu', 'devices.virtset.io/kvm', `${resource}: must not be a resource of virtset itself`],
])('%s is refused', (_, name, resourceName, expected) => {
  expect(check(name, resourceName)).toEqual([expect.stringContaining(expected)])
})

test.each<[string, object, string]>([
  ['of no kind', {}, 'spec.hostDevices[0]: must set one of: resourceName, claim'],
  [
    'of two kinds',
    { resourceName: 'example.com/gpu', claim: { name: 'a', request: 'b' } },
    'spec.hostDevices[0].claim: conflicts with resourceName: a device has one kind',
  ],
  [
    'of a claim in another directory',
    { claim: { name: 'a', request: '..' } },
    'spec.hostDevices[0].claim.request: must be at most 63',
  ],
])('a device %s is refused', (_, kinds, expected) => {
  const causes = checkHostDevices([{ name: 'gpu', ...kinds }], 'spec.hostDevices')
  expect(causes.map(({ field, message }) => `${field}: ${message}`)).toEqual([expect.stringContaining(expected)])
})

test('a pod requests as many of each resource as it has devices of it', () => {
  const devices = ['example.com/gpu', 'example.com/nic', 'example.com/gpu']
  expect(hostDeviceResources(devices.map((resourceName, index) => ({ name: `d${index}`, resourceName })))).toEqual({
    'example.com/gpu': '2',
    'example.com/nic': '1',
  })
})
