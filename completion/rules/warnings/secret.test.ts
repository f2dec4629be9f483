import { expect, test } from 'vitest'
import { bundledCapabilities } from '../../capabilities.ts'
import { inlineSecret } from './secret.ts'

const warned = (userData: string): boolean => {
  const spec = { domain: {}, volumes: [{ name: 'seed', cloudInit: { userData } }] }
  const subject = { spec, domain: {}, capabilities: bundledCapabilities, isGranted: () => false }
  return [...inlineSecret.check({ ...subject, originOf: () => ({ by: 'user' }) })].length > 0
}

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
  expect(warned(userData)).toBe(isWarned)
})
