import { eachDevice, list, type DeviceOf } from './device.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { forbidEach, invalid, missingCapability, required, tooMany, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const tpm = (...tpms: DeviceOf<'tpms'>[]): Domain => ({ devices: { tpms } })

const tpmBackend = eachDevice('tpms')(
  'tpm-backend',
  'A TPM must have a backend and a version that the node supports, and only the options of its backend; the CRB interface requires version 2.0.',
  ({ model, backend }, at, { capabilities: { words }, originOf }) => {
    const { type, version } = backend ?? {}
    if (type === undefined) return [required(`${at}.backend.type`, 'must be set', 'e.g. emulator')]
    const findings: Finding[] = []
    const versions = words['tpm.backendVersion']
    const isWritten = version !== undefined && originOf(`${at}.backend.version`).by !== 'default'
    if (type === 'emulator' && isWritten && versions?.length && !versions.includes(version)) {
      const message = `the TPM emulator on this node has no such version; it has ${versions.join(', ')}`
      const finding = unsupported(`${at}.backend.version`, version, message, 'use model: tpm-crb or version: "2.0"')
      findings.push(missingCapability(`TPM emulator of version ${version}`, finding))
    }
    const backends = words['tpm.backendModel']
    if (backends && !backends.includes(type)) {
      const message = `QEMU on this node has no such TPM backend; it has ${backends.join(', ')}`
      findings.push(missingCapability(`TPM backend ${type}`, unsupported(`${at}.backend.type`, type, message)))
    }
    if (type === 'emulator' && version === '1.2' && model === 'tpm-crb') {
      findings.push(invalid(`${at}.model`, model, 'must be tpm-tis for version 1.2'))
    }
    if (type === 'external' && backend?.source === undefined) {
      findings.push(required(`${at}.backend.source`, 'must be set for type external: the socket of the emulator'))
    }
    if (type === 'emulator' && version === '1.2') {
      const message = 'requires TPM version 2.0'
      findings.push(...forbidEach(backend ?? {}, `${at}.backend`, ['activePcrBanks', 'profile'], message))
    }
    if (type === 'external' && backend?.source && backend.source.path === undefined)
      findings.push(required(`${at}.backend.source.path`, 'must be set for type external: the path of the socket'))
    if (type === 'external' && backend?.source?.type !== undefined && backend.source.type !== 'unix')
      findings.push(invalid(`${at}.backend.source.type`, backend.source.type, 'must be unix for type external'))
    if (type !== 'emulator') {
      const message = 'can only be set for type emulator'
      const fields = ['persistentState', 'debug', 'encryption', 'activePcrBanks', 'profile']
      findings.push(...forbidEach(backend ?? {}, `${at}.backend`, fields, message))
    }
    return findings
  },
  example(
    tpm({ model: 'tpm-tis', backend: { type: 'emulator', version: '1.2' } }),
    tpm({ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } }),
  ),
)

const tpmCount: Rule = {
  id: 'tpm-count',
  description: 'A VM can have at most one TPM.',
  about: ['tpms'],
  *check({ domain }) {
    const count = list(domain, 'tpms').length
    if (count > 1) yield tooMany('spec.domain.devices.tpms', count, 'at most one TPM is supported')
  },
  example: example(
    tpm(
      ...['2.0', '2.0'].map((): DeviceOf<'tpms'> => ({
        model: 'tpm-crb',
        backend: { type: 'emulator', version: '2.0' },
      })),
    ),
    tpm({ model: 'tpm-crb', backend: { type: 'emulator', version: '2.0' } }),
  ),
}

export const tpmRules: readonly Rule[] = [tpmBackend, tpmCount]
