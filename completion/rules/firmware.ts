import { chipsetOf } from '../defaults/machine.ts'
import { firmwareFor } from '../defaults/firmware.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { forbidden, forbidEach, invalid, lacking, required, unsupported } from './finding.ts'
import { example, type Rule, type Subject } from './rule.ts'

const field = 'spec.domain.os'

/** Whether somebody asked for it, and it is not what completion found. */
const isAsked = ({ originOf }: Subject, path: string, value: unknown): boolean =>
  value !== undefined && originOf(`${field}.${path}`).by !== 'default'

const efi = (os: NonNullable<Domain['os']>): Domain => ({
  features: { acpi: {} },
  os: { type: { os: 'hvm', machine: 'q35' }, ...os },
})

const firmwareFeatures: Rule = {
  id: 'firmware-features',
  description: 'Features are asked of a firmware that is chosen automatically; keys are enrolled for Secure Boot only.',
  about: ['firmwareSelection'],
  *check(subject) {
    const { os } = subject.domain
    const features = os?.firmwareSelection?.features ?? []
    const asked = features.some((_, index) =>
      isAsked(subject, `firmwareSelection.features[${index}].name`, features[index]?.name),
    )
    if (asked && os?.firmware === undefined) {
      yield forbidden(
        `${field}.firmwareSelection`,
        undefined,
        'may be given only where firmware is (chosen automatically)',
        'firmware: efi',
      )
    }
    const enabled = (name: string): boolean | undefined => features.find((one) => one.name === name)?.enabled
    if (enabled('enrolled-keys') === true && enabled('secure-boot') === false) {
      const index = features.findIndex(({ name }) => name === 'enrolled-keys')
      const message = 'cannot be, while secure-boot is off: enrolled keys switch it on'
      yield invalid(`${field}.firmwareSelection.features[${index}].enabled`, true, message)
    }
  },
  example: example(
    efi({
      firmware: 'efi',
      firmwareSelection: {
        features: [
          { name: 'enrolled-keys', enabled: true },
          { name: 'secure-boot', enabled: false },
        ],
      },
    }),
    efi({ firmware: 'efi', firmwareSelection: { features: [{ name: 'enrolled-keys', enabled: false }] } }),
  ),
}

const firmwareNvram: Rule = {
  id: 'firmware-nvram',
  description: 'Only UEFI that is not stateless keeps variables.',
  about: ['loader', 'nvram'],
  *check({ domain: { os } }) {
    if (!os?.loader && !os?.nvram) return
    const { firmware, loader, nvram } = os
    if (nvram && firmware === 'bios') {
      yield forbidden(`${field}.nvram`, undefined, 'may not be given for firmware bios, which keeps no variables')
    }
    if (loader?.stateless === true && nvram) {
      const what = nvram.template === undefined ? 'nvram' : 'nvram.template'
      yield forbidden(
        `${field}.${what}`,
        undefined,
        'may not be given, since the loader is stateless: it keeps no variables',
      )
    }
    if (loader?.stateless === false) {
      const keeps = firmware === undefined ? loader.type === 'pflash' : firmware === 'efi'
      if (!keeps) yield invalid(`${field}.loader.stateless`, false, 'must be true: only UEFI on pflash keeps variables')
    }
  },
  example: example(
    { os: { type: { os: 'hvm' }, firmware: 'bios', nvram: { value: '/vars.fd' } } },
    { os: { type: { os: 'hvm' }, firmware: 'bios' } },
  ),
}

const firmwareLoader: Rule = {
  id: 'firmware-loader',
  description: 'A firmware is chosen automatically, or its image is named.',
  about: ['loader', 'nvram'],
  *check(subject) {
    const { os } = subject.domain
    if (!os || !(isAskedLoader(subject) || (os.nvram && !os.loader))) return
    if (isAsked(subject, 'firmware', os.firmware) || isAsked(subject, 'loader.value', os.loader?.value)) return
    yield required(
      `${field}.loader.value`,
      'must be given, since firmware is not: which image it is',
      'or firmware: efi',
    )
  },
  example: example(
    efi({ loader: { readonly: true, type: 'pflash' } }),
    efi({ firmware: 'efi', loader: { readonly: true, type: 'pflash' } }),
  ),
}

const isAskedLoader = (subject: Subject): boolean =>
  Object.keys(subject.domain.os?.loader ?? {}).some((key) => isAsked(subject, `loader.${key}`, key))

const firmwareFound: Rule = {
  id: 'firmware-found',
  description: 'A firmware that is chosen automatically is there: one of the node has all that is asked for.',
  about: ['firmware'],
  *check(subject) {
    const { domain, capabilities } = subject
    const { os } = domain
    if (os?.firmware === undefined || !isAsked(subject, 'firmware', os.firmware)) return
    if (firmwareFor(domain, capabilities) !== undefined) return
    const asked = ['loader', 'nvram', 'firmwareSelection'].filter((key) => Object.hasOwn(os, key))
    const because = asked.length === 0 ? '' : `, with what ${asked.join(', ')} ask for`
    const message = `no firmware of the node fits machine type ${os.type?.machine}${because}`
    yield lacking(
      `firmware ${os.firmware} for machine type ${os.type?.machine}${because}`,
      invalid(`${field}.firmware`, os.firmware, message),
    )
  },
  example: example(
    efi({ firmware: 'efi', loader: { readonly: false } }),
    efi({ firmware: 'efi', loader: { readonly: true } }),
  ),
}

const firmwareMachine: Rule = {
  id: 'firmware-machine',
  description: 'UEFI needs ACPI; Secure Boot needs a q35 machine of x86_64, and system management mode.',
  about: ['firmware', 'loader'],
  *check({ domain, originOf }) {
    const { os, features } = domain
    if (!os) return
    const isUefi = os.firmware === 'efi' || (os.loader?.type === 'pflash' && os.loader.value !== undefined)
    if (isUefi && features?.acpi === undefined) {
      yield required('spec.domain.features.acpi', 'must be given: UEFI needs ACPI', 'features: {acpi: {}}')
    }
    if (os.loader?.secure !== true) return
    if (chipsetOf(domain) !== 'q35') {
      yield invalid(`${field}.loader.secure`, true, 'is possible on machine type q35 only')
    }
    if (os.type?.arch === 'i686') yield invalid(`${field}.loader.secure`, true, 'is possible on x86_64 only')
    const isManual = os.firmware === undefined || originOf(`${field}.firmware`).by === 'default'
    if (isManual && features?.smm?.state !== true) {
      yield required('spec.domain.features.smm.state', 'must be true: Secure Boot needs system management mode')
    }
  },
  example: example(
    { os: { type: { os: 'hvm', machine: 'q35' }, firmware: 'efi' } },
    { os: { type: { os: 'hvm', machine: 'q35' }, firmware: 'efi' }, features: { acpi: {} } },
  ),
}

const nvramSources = ['file', 'block', 'network']

const firmwareNvramSource: Rule = {
  id: 'firmware-nvram-source',
  description: 'Variables of the firmware are kept in a file, a block device or on a server, whole and unshared.',
  about: ['nvram'],
  *check({ domain: { os } }) {
    const { type, source } = os?.nvram ?? {}
    if (type === undefined) return
    const at = `${field}.nvram`
    if (!nvramSources.includes(type)) yield unsupported(`${at}.type`, type, `must be one of ${nvramSources.join(', ')}`)
    else if (source === undefined) yield required(`${at}.source`, `must be given for type ${type}`)
    else yield* forbidEach(source, `${at}.source`, ['slices', 'reservations'], 'may not be given for nvram')
  },
  example: example(
    efi({
      loader: { type: 'pflash', readonly: true, value: '/code.fd' },
      nvram: { type: 'dir', source: { dir: '/d' } },
    }),
    efi({
      loader: { type: 'pflash', readonly: true, value: '/code.fd' },
      nvram: { type: 'file', source: { file: '/d' } },
    }),
  ),
}

export const firmwareRules: readonly Rule[] = [
  firmwareNvramSource,
  firmwareFeatures,
  firmwareNvram,
  firmwareLoader,
  firmwareFound,
  firmwareMachine,
]
