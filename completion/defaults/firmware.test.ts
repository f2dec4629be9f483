import { describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied, q35 } from '../../test/applied.ts'
import type { Firmware } from '../../api/capabilities.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { firmware, loaderFormat, loaderType, nvram } from './firmware.ts'

const targets = [{ architecture: 'x86_64', machines: ['pc-q35-*'] }]
const image = (name: string, features: string[], format = 'raw'): Firmware => ({
  name: `${name}.json`,
  interfaces: ['uefi'],
  targets,
  features,
  mapping: {
    device: 'flash',
    mode: 'split',
    code: { path: `/fw/${name}.code`, format },
    variables: { path: `/fw/${name}.vars`, format },
  },
})
const secure = image('secure', ['acpi-s3', 'requires-smm', 'secure-boot', 'enrolled-keys'])
const plain = image('plain', ['acpi-s3'])
const qcow2 = image('qcow2', ['acpi-s3'], 'qcow2')
const bios: Firmware = {
  name: 'bios.json',
  interfaces: ['bios'],
  targets,
  features: [],
  mapping: { device: 'memory', path: '/fw/bios' },
}

const rules = [firmware, loaderFormat, loaderType, nvram]
const filled = (os: Domain['os'] & object, list: Firmware[], more: Domain = {}): Domain =>
  applied(
    rules,
    { name: 'vm', ...more, os: { ...q35, ...os } },
    { capabilities: { ...bundledCapabilities, firmware: list } },
  )

const features = (isOn: boolean) => ({
  features: [
    { enabled: isOn, name: 'enrolled-keys' },
    { enabled: isOn, name: 'secure-boot' },
  ],
})
const loaderOf = (name: string, format = 'raw') => ({
  readonly: true,
  type: 'pflash',
  format,
  value: `/fw/${name}.code`,
})
const nvramOf = (name: string, format = 'raw') => ({
  template: `/fw/${name}.vars`,
  templateFormat: format,
  format,
  value: `/var/lib/libvirt/qemu/nvram/vm_VARS.${format === 'qcow2' ? 'qcow2' : 'fd'}`,
})

describe('the selected firmware', () => {
  test('is the first match, with its features and variable store', () => {
    expect(filled({ firmware: 'efi' }, [bios, plain, secure])).toEqual({
      name: 'vm',
      os: {
        ...q35,
        firmware: 'efi',
        firmwareSelection: features(false),
        loader: loaderOf('plain'),
        nvram: nvramOf('plain'),
      },
    })
  })

  test('enables system management mode if it requires it', () => {
    expect(filled({ firmware: 'efi' }, [secure, plain])).toEqual({
      name: 'vm',
      os: {
        ...q35,
        firmware: 'efi',
        firmwareSelection: features(true),
        loader: { ...loaderOf('secure'), secure: true },
        nvram: nvramOf('secure'),
      },
      features: { smm: { state: true } },
    })
  })

  test('has a variable store in qcow2 if it is in qcow2', () => {
    expect(filled({ firmware: 'efi' }, [qcow2]).os?.nvram).toEqual(nvramOf('qcow2', 'qcow2'))
  })

  test.each<[string, Domain['os'] & object, Domain, string | undefined]>([
    ['without system management mode', { firmware: 'efi' }, { features: { smm: { state: false } } }, '/fw/plain.code'],
    [
      'without secure boot',
      { firmware: 'efi', firmwareSelection: { features: [{ enabled: false, name: 'secure-boot' }] } },
      {},
      '/fw/plain.code',
    ],
    ['with a secure loader', { firmware: 'efi', loader: { secure: true } }, {}, '/fw/secure.code'],
    ['with a given image', { firmware: 'efi', loader: { value: '/fw/plain.code' } }, {}, '/fw/plain.code'],
    ['in a given format', { firmware: 'efi', loader: { format: 'qcow2' } }, {}, '/fw/qcow2.code'],
    ['with support for suspend to disk', { firmware: 'efi' }, { pm: { suspendToDisk: { enabled: true } } }, undefined],
    ['as BIOS', { firmware: 'bios' }, {}, '/fw/bios'],
    ['without a request', {}, {}, undefined],
  ])('%s', (_, os, more, expected) => {
    expect(filled(os, [secure, plain, qcow2, bios], more).os?.loader?.value).toBe(expected)
  })
})

test('an image that no descriptor names does not change, and has its own variables', () => {
  expect(filled({ loader: { type: 'pflash', readonly: true, value: '/own' } }, [plain]).os).toEqual({
    ...q35,
    loader: { type: 'pflash', readonly: true, format: 'raw', value: '/own' },
    nvram: { format: 'raw', value: '/var/lib/libvirt/qemu/nvram/vm_VARS.fd' },
  })
})

test.each<[string, (Domain['os'] & object)['loader'] & object]>([
  ['that is stateless', { type: 'pflash', readonly: true, stateless: true, value: '/own' }],
  ['that is writable', { type: 'pflash', readonly: false, value: '/own' }],
])('an image %s has no variable store', (_, loader) => {
  expect(filled({ loader }, []).os).toEqual({ ...q35, loader: { ...loader, format: 'raw' } })
})
