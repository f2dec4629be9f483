import { expect, test } from 'vitest'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { capabilitySetName } from './node-capability-set.ts'

test('the name of a set depends on its content, not on the order of keys', () => {
  const { version, ...others } = bundledCapabilities
  const name = capabilitySetName(bundledCapabilities)
  expect(name).toMatch(/^[0-9a-f]{64}$/)
  expect(capabilitySetName({ version, ...others })).toBe(name)
  expect(capabilitySetName({ version: '10.0.1', ...others })).not.toBe(name)
})

test('processes of all versions compute the same name', () => {
  const tiny = {
    architecture: 'x86_64',
    version: '10.0.0',
    emulator: '/usr/bin/qemu-kvm',
    machines: [{ name: 'q35', maxCpus: 1, hasAcpi: true }],
    devices: [],
    accelerators: {},
    hyperv: [],
    words: {},
    firmware: [],
  } as const
  expect(capabilitySetName(tiny)).toBe('5a471c06081cac6ee2e4af8a3a5e28483642530b9007fcf705473adfe78ad3d3')
})
