import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import { placeDeviceState, stateFiles } from './device-state.ts'

const os = { firmware: 'efi', type: { os: 'hvm', machine: 'q35' } } as const
const vm = { name: 'vm', uid: '33a0a1b2-0000-4000-8000-000000000001' }
const inPod = { nvramDirectory: '/private/nvram' }
const onClaim = { nvramDirectory: '/volumes/state', tpmDirectory: '/volumes/state/vm_TPM' }

test.each([
  [
    'that completion has set is in the pod',
    { format: 'raw', template: '/usr/share/vars.fd', value: '/var/lib/libvirt/qemu/nvram/vm_VARS.fd' } as const,
    { format: 'raw', template: '/usr/share/vars.fd', value: '/private/nvram/vm_VARS.fd' },
  ],
  ['elsewhere is not moved', { value: '/var/lib/libvirt/qemu/nvram.fd' }, { value: '/var/lib/libvirt/qemu/nvram.fd' }],
  [
    'that is not a file is not moved',
    { type: 'block', source: { dev: '/dev/vars' } } as const,
    { type: 'block', source: { dev: '/dev/vars' } },
  ],
])('a variable store %s', (_, nvram, expected) => {
  expect(placeDeviceState({ type: 'qemu', os: { ...os, nvram } }, inPod)).toEqual({
    type: 'qemu',
    os: { ...os, nvram: expected },
  })
})

const withTpm = (backend: object): Domain => ({ devices: { tpms: [{ model: 'tpm-crb', backend }] } })
const onDirectory = { type: 'dir', path: onClaim.tpmDirectory }

test.each([
  ['in the pod is where libvirt stores it', { type: 'emulator' }, inPod, { type: 'emulator' }],
  ['is on the claim', { type: 'emulator' }, onClaim, { type: 'emulator', source: onDirectory }],
  [
    'that a preset has placed is not moved',
    { type: 'emulator', source: { type: 'file', path: '/x' } },
    onClaim,
    { type: 'emulator', source: { type: 'file', path: '/x' } },
  ],
  ['of the node is not moved', { type: 'passthrough' }, onClaim, { type: 'passthrough' }],
])('the state of a TPM %s', (_, backend, files, expected) => {
  expect(placeDeviceState(withTpm(backend), files)).toEqual(withTpm(expected))
})

test('a domain without state is not changed', () => {
  expect(placeDeviceState({ type: 'qemu' }, onClaim)).toEqual({ type: 'qemu' })
})

test('the files are in the volume, which must be a file system', async () => {
  const directory = await mkdtemp(join(tmpdir(), 'state-'))
  onTestFinished(() => rm(directory, { recursive: true }))
  const volumes = {
    files: dirname(directory),
    blocks: '/block',
    images: '/images',
    sources: '/sources',
    scratch: '/tmp',
  }
  const at = (deviceStateVolume?: string) =>
    stateFiles(deviceStateVolume === undefined ? {} : { deviceStateVolume }, vm, { nvram: '/private/nvram', volumes })
  expect(await at()).toEqual(inPod)
  expect(await at(basename(directory))).toEqual({
    nvramDirectory: directory,
    tpmDirectory: join(directory, 'vm_TPM'),
  })
  await expect(at('absent')).rejects.toThrow(
    'volume "absent": spec.deviceStateVolume requires a claim with volumeMode Filesystem',
  )
})
