import { eachDevice, list, type DeviceOf } from './device.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { forbidden, forbidEach, invalid, lacking, required, tooMany, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const tpm = (...tpms: DeviceOf<'tpms'>[]): Domain => ({ devices: { tpms } })

const tpmBackend = eachDevice('tpms')(
  'tpm-backend',
  'A TPM has a backend, of a version that is there; the CRB interface is of version 2.0.',
  ({ model, backend }, at, { capabilities: { words }, originOf }) => {
    const { type, version } = backend ?? {}
    if (type === undefined) return [required(`${at}.backend.type`, 'must be given', 'e.g. emulator')]
    const findings: Finding[] = []
    const versions = words['tpm.backendVersion']
    const isAsked = version !== undefined && originOf(`${at}.backend.version`).by !== 'default'
    if (type === 'emulator' && isAsked && versions?.length && !versions.includes(version)) {
      const message = `is no version of the TPM emulator here; there is ${versions.join(', ')}`
      const finding = unsupported(`${at}.backend.version`, version, message, 'model: tpm-crb, or version: "2.0"')
      findings.push(lacking(`TPM emulator of version ${version}`, finding))
    }
    const backends = words['tpm.backendModel']
    if (backends && !backends.includes(type)) {
      const message = `is no backend of TPMs here; there are: ${backends.join(', ')}`
      findings.push(lacking(`TPM backend ${type}`, unsupported(`${at}.backend.type`, type, message)))
    }
    if (type === 'emulator' && version === '1.2' && model === 'tpm-crb') {
      findings.push(invalid(`${at}.model`, model, 'must be tpm-tis for version 1.2'))
    }
    if (type === 'external' && backend?.source === undefined) {
      findings.push(required(`${at}.backend.source`, 'must be given for type external: the socket of the emulator'))
    }
    if (type === 'emulator' && version === '1.2') {
      const message = 'needs version 2.0 of the TPM'
      findings.push(...forbidEach(backend ?? {}, `${at}.backend`, ['activePcrBanks', 'profile'], message))
    }
    if (type === 'external' && backend?.source && backend.source.path === undefined)
      findings.push(required(`${at}.backend.source.path`, 'must be given for type external: the socket'))
    if (type === 'external' && backend?.source?.type !== undefined && backend.source.type !== 'unix')
      findings.push(invalid(`${at}.backend.source.type`, backend.source.type, 'must be unix for type external'))
    if (type !== 'emulator') {
      for (const key of ['version', 'persistentState', 'debug', 'encryption', 'activePcrBanks', 'profile'] as const) {
        if (backend?.[key] !== undefined && key !== 'version') {
          findings.push(forbidden(`${at}.backend.${key}`, backend[key], 'may be given for type emulator only'))
        }
      }
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
  description: 'A PC has one TPM.',
  about: ['tpms'],
  *check({ domain }) {
    const count = list(domain, 'tpms').length
    if (count > 1) yield tooMany('spec.domain.devices.tpms', count, 'a PC has one TPM at most')
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
