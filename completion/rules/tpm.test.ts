import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'
import type { DeviceOf } from './device.ts'

type Backend = NonNullable<DeviceOf<'tpms'>['backend']>

const tpm = (backend: Backend, model?: DeviceOf<'tpms'>['model']): Domain => ({
  devices: { tpms: [{ backend, ...(model === undefined ? {} : { model }) }] },
})

const emulator = (more: Backend = {}): Domain => tpm({ type: 'emulator', version: '2.0', ...more }, 'tpm-tis')
const source = { type: 'unix', path: '/tpm.sock', mode: 'connect' } as const
const external = (more: Backend = {}): Domain => tpm({ type: 'external', source, ...more }, 'tpm-tis')

const { words } = bundledCapabilities
/** A node whose TPM emulator supports both versions. */
const oldTpm = { ...bundledCapabilities, words: { ...words, 'tpm.backendVersion': ['1.2', '2.0'] } }
/** A node whose QEMU supports the emulator only. */
const onlyEmulator = { ...bundledCapabilities, words: { ...words, 'tpm.backendModel': ['emulator'] } }

testRule('tpm-backend', [
  {
    refused: external({ version: '1.2', profile: { source: 'local:restricted' } }),
    causes: ['spec.domain.devices.tpms[0].backend.profile: Forbidden: can only be set for type emulator'],
    accepted: external({ version: '1.2' }),
  },
  {
    refused: { devices: { tpms: [{ model: 'tpm-tis' }] } },
    causes: ['spec.domain.devices.tpms[0].backend.type: Required value: must be set; e.g. emulator'],
    accepted: emulator(),
  },
  {
    refused: emulator({ version: '1.2' }),
    causes: [
      'spec.domain.devices.tpms[0].backend.version: Unsupported value: "1.2": the TPM emulator on this node has no such version; it has 2.0; use model: tpm-crb or version: "2.0" [node without TPM emulator of version 1.2]',
    ],
    accepted: emulator({ version: '2.0' }),
  },
  {
    refused: external(),
    causes: [
      'spec.domain.devices.tpms[0].backend.type: Unsupported value: "external": QEMU on this node has no such TPM backend; it has emulator [node without TPM backend external]',
    ],
    accepted: emulator(),
    capabilities: onlyEmulator,
  },
  {
    refused: tpm({ type: 'emulator', version: '1.2' }, 'tpm-crb'),
    causes: ['spec.domain.devices.tpms[0].model: Invalid value: "tpm-crb": must be tpm-tis for version 1.2'],
    accepted: tpm({ type: 'emulator', version: '1.2' }, 'tpm-tis'),
    capabilities: oldTpm,
  },
  {
    refused: tpm({ type: 'external' }),
    causes: [
      'spec.domain.devices.tpms[0].backend.source: Required value: must be set for type external: the socket of the emulator',
    ],
    accepted: external(),
  },
  {
    refused: emulator({ version: '1.2', activePcrBanks: { sha256: {} } }),
    causes: ['spec.domain.devices.tpms[0].backend.activePcrBanks: Forbidden: requires TPM version 2.0'],
    accepted: emulator({ version: '2.0', activePcrBanks: { sha256: {} } }),
    capabilities: oldTpm,
  },
  {
    refused: emulator({ version: '1.2', profile: { source: 'local:restricted' } }),
    causes: ['spec.domain.devices.tpms[0].backend.profile: Forbidden: requires TPM version 2.0'],
    accepted: emulator({ version: '2.0', profile: { source: 'local:restricted' } }),
    capabilities: oldTpm,
  },
  {
    refused: external({ source: { type: 'unix', mode: 'connect' } }),
    causes: [
      'spec.domain.devices.tpms[0].backend.source.path: Required value: must be set for type external: the path of the socket',
    ],
    accepted: external(),
  },
  {
    refused: external({ source: { ...source, type: 'file' } }),
    causes: ['spec.domain.devices.tpms[0].backend.source.type: Invalid value: "file": must be unix for type external'],
    accepted: external(),
  },
  {
    refused: external({
      persistentState: true,
      debug: 1,
      encryption: { secret: 'e1a0b2c3-0000-4000-8000-000000000000' },
      activePcrBanks: { sha256: {} },
      profile: { source: 'local:restricted' },
    }),
    causes: [
      'spec.domain.devices.tpms[0].backend.persistentState: Forbidden: can only be set for type emulator',
      'spec.domain.devices.tpms[0].backend.debug: Forbidden: can only be set for type emulator',
      'spec.domain.devices.tpms[0].backend.encryption: Forbidden: can only be set for type emulator',
      'spec.domain.devices.tpms[0].backend.activePcrBanks: Forbidden: can only be set for type emulator',
      'spec.domain.devices.tpms[0].backend.profile: Forbidden: can only be set for type emulator',
    ],
    accepted: emulator({
      persistentState: true,
      debug: 1,
      encryption: { secret: 'e1a0b2c3-0000-4000-8000-000000000000' },
      activePcrBanks: { sha256: {} },
      profile: { source: 'local:restricted' },
    }),
  },
])

const two = (devices: DeviceOf<'tpms'>[]): Domain => ({ devices: { tpms: devices } })
const crb: DeviceOf<'tpms'> = { model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } }

testRule('tpm-count', [
  {
    refused: two([crb, crb]),
    causes: ['spec.domain.devices.tpms: Too many: 2: at most one TPM is supported'],
    accepted: two([crb]),
  },
])

const passthrough = (more: Backend = {}): Domain =>
  tpm({ type: 'passthrough', device: { path: '/dev/tpm0' }, ...more }, 'tpm-crb')

testSilent('tpm-backend', [
  tpm({ type: 'emulator' }, 'tpm-tis'),
  passthrough({ version: '1.2' }),
  emulator({ source: { type: 'file' } }),
])
testSilent('tpm-backend', [emulator({ version: '1.2' }), external()], {
  capabilities: { ...bundledCapabilities, words: {} },
})
testSilent('tpm-backend', [emulator({ version: '1.2' })], {
  capabilities: { ...bundledCapabilities, words: { ...words, 'tpm.backendVersion': [] } },
})
