import { expect, test } from 'vitest'
import type { VirtualMachineSpec } from '../../../api/virtual-machine.ts'
import { bundledCapabilities } from '../../capabilities.ts'
import { inlineSecret } from './secret.ts'

const readers = 'every node and everyone with read access to VMs can read this secret'

const linesOf = (spec: VirtualMachineSpec): string[] => {
  const subject = { spec, domain: spec.domain, capabilities: bundledCapabilities, isGranted: () => false }
  return [...inlineSecret.check({ ...subject, originOf: () => ({ by: 'user' }) })]
}

test('a password of a screen is a secret', () => {
  const graphics = [{ type: 'vnc' as const }, { type: 'vnc' as const, passwd: 'secret' }]
  expect(linesOf({ domain: { devices: { graphics } } })).toEqual([`devices.graphics[1].passwd: ${readers}`])
})

test.each([
  ['#cloud-config\npassword: x', true],
  ['#cloud-config\nusers:\n- name: a\n  hashed_passwd: $6$', true],
  ['#cloud-config\nusers:\n  - passwd : x', true],
  ['#cloud-config\nchpasswd:\n  list: a:b', true],
  ['-----BEGIN OPENSSH PRIVATE KEY-----', true],
  ['#cloud-config\nssh_pwauth: false\nssh_authorized_keys: [a]', false],
  ['#cloud-config\nruncmd: [echo no password: here]', false],
  ['', false],
])('%j: %s', (userData, isWarned) => {
  const volumes = [
    { name: 'data', emptyDisk: { capacity: '1Gi' } },
    { name: 'seed', cloudInit: { userData } },
  ]
  const lines = isWarned ? [`volumes[1].cloudInit.userData: ${readers}; use userDataSecretRef`] : []
  expect(linesOf({ domain: {}, volumes })).toEqual(lines)
})
