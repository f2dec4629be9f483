import { chipsetOf } from '../defaults/machine.ts'
import { firmwareFor } from '../defaults/firmware.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { forbidden, forbidEach, invalid, missingCapability, required, unsupported } from './finding.ts'
import { example, type Rule, type Subject } from './rule.ts'

const field = 'spec.domain.os'

/** Whether the user or a preset set the value, not completion. */
const isRequested = ({ originOf }: Subject, path: string, value: unknown): boolean =>
  value !== undefined && originOf(`${field}.${path}`).by !== 'default'

type Os = NonNullable<Domain['os']>

const efi = (os: Os): Domain => ({
  features: { acpi: {} },
  os: { type: { os: 'hvm', machine: 'q35' }, ...os },
})

const firmwareFeatures: Rule = {
  id: 'firmware-features',
  description: '`os.firmwareSelection` requires `os.firmware`; enrolled keys require Secure Boot.',
  about: ['firmwareSelection'],
  *check(subject) {
    const { os } = subject.domain
    const features = os?.firmwareSelection?.features ?? []
    const requested = features.some((_, index) =>
      isRequested(subject, `firmwareSelection.features[${index}].name`, features[index]?.name),
    )
    if (requested && os?.firmware === undefined) {
      yield forbidden(
        `${field}.firmwareSelection`,
        undefined,
        'requires os.firmware, which selects a firmware automatically',
        'firmware: efi',
      )
    }
    const enabled = (name: string): boolean | undefined => features.find((one) => one.name === name)?.enabled
    if (enabled('enrolled-keys') === true && enabled('secure-boot') === false) {
      const index = features.findIndex(({ name }) => name === 'enrolled-keys')
      const message = 'must be false when secure-boot is disabled: enrolled keys enable it'
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
  description: '`os.nvram` requires UEFI that is not stateless; a loader that is not stateless must be UEFI.',
  about: ['loader', 'nvram'],
  *check({ domain: { os } }) {
    const { firmware, loader, nvram } = os ?? {}
    if (nvram && firmware === 'bios') {
      yield forbidden(`${field}.nvram`, undefined, 'must not be set for firmware bios, which has no variables')
    }
    if (loader?.stateless === true && nvram) {
      const what = nvram.template === undefined ? 'nvram' : 'nvram.template'
      yield forbidden(`${field}.${what}`, undefined, 'must not be set for a stateless loader, which has no variables')
    }
    if (loader?.stateless === false) {
      const hasVariables = firmware === undefined ? loader.type === 'pflash' : firmware === 'efi'
      if (!hasVariables)
        yield invalid(`${field}.loader.stateless`, false, 'must be true: only UEFI on pflash has variables')
    }
  },
  example: example(
    { os: { type: { os: 'hvm' }, firmware: 'bios', nvram: { value: '/vars.fd' } } },
    { os: { type: { os: 'hvm' }, firmware: 'bios' } },
  ),
}

const firmwareLoader: Rule = {
  id: 'firmware-loader',
  description: 'A loader or nvram requires `os.firmware` or the image in `os.loader.value`.',
  about: ['loader', 'nvram'],
  *check(subject) {
    const { os } = subject.domain
    if (!os?.loader && !os?.nvram) return
    if (isRequested(subject, 'firmware', os.firmware) || isRequested(subject, 'loader.value', os.loader?.value)) return
    yield required(`${field}.loader.value`, 'must be set when os.firmware is not', 'or firmware: efi')
  },
  example: example(
    efi({ loader: { readonly: true, type: 'pflash' } }),
    efi({ firmware: 'efi', loader: { readonly: true, type: 'pflash' } }),
  ),
}

/**
 * If no firmware has the format of the variable store, completion assumes a raw loader, which libvirt does not search
 * for.
 */
const withRequestedFormat = (subject: Subject, os: Os): Os => {
  const { nvram, loader = {} } = os
  if (!isRequested(subject, 'nvram.format', nvram?.format)) return os
  if (isRequested(subject, 'loader.format', loader.format)) return os
  const { format: _, ...rest } = loader
  return { ...os, loader: rest }
}

const firmwareFound: Rule = {
  id: 'firmware-found',
  description: 'The node must have a firmware that fits `os.firmware` and the requested options.',
  about: ['firmware'],
  *check(subject) {
    const { domain, capabilities } = subject
    const { os } = domain
    if (os?.firmware === undefined || !isRequested(subject, 'firmware', os.firmware)) return
    if (firmwareFor({ ...domain, os: withRequestedFormat(subject, os) }, capabilities) !== undefined) return
    const requested = ['loader', 'nvram', 'firmwareSelection'].filter((key) => Object.hasOwn(os, key))
    const because = requested.length === 0 ? '' : ` and ${requested.join(', ')}`
    const message = `no firmware of the node fits machine type ${os.type?.machine}${because}`
    yield missingCapability(
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
  description: 'UEFI requires ACPI; Secure Boot requires machine type q35, x86_64 and system management mode.',
  about: ['firmware', 'loader'],
  *check({ domain, originOf }) {
    const { os, features } = domain
    if (!os) return
    const isUefi = os.firmware === 'efi' || (os.loader?.type === 'pflash' && os.loader.value !== undefined)
    if (isUefi && features?.acpi === undefined) {
      yield required('spec.domain.features.acpi', 'must be set: UEFI requires ACPI', 'features: {acpi: {}}')
    }
    if (os.loader?.secure !== true) return
    if (chipsetOf(domain) !== 'q35') {
      yield invalid(`${field}.loader.secure`, true, 'is only supported on machine type q35')
    }
    if (os.type?.arch === 'i686') yield invalid(`${field}.loader.secure`, true, 'is only supported on x86_64')
    const isManual = os.firmware === undefined || originOf(`${field}.firmware`).by === 'default'
    if (isManual && features?.smm?.state !== true) {
      yield required('spec.domain.features.smm.state', 'must be true: Secure Boot requires system management mode')
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
  description:
    'The source of `os.nvram` must be a file, a block device or a network disk, without slices and reservations.',
  about: ['nvram'],
  *check({ domain: { os } }) {
    const { type, source } = os?.nvram ?? {}
    if (type === undefined) return
    const at = `${field}.nvram`
    if (!nvramSources.includes(type)) yield unsupported(`${at}.type`, type, `must be one of ${nvramSources.join(', ')}`)
    else if (source === undefined) yield required(`${at}.source`, `must be set for type ${type}`)
    else yield* forbidEach(source, `${at}.source`, ['slices', 'reservations'], 'must not be set for nvram')
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
