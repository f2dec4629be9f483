import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'

type Os = NonNullable<Domain['os']>
type Feature = NonNullable<NonNullable<Os['firmwareSelection']>['features']>[number]

const uefi = (os: Os, features: Domain['features'] = { acpi: {} }): Domain => ({
  features,
  os: { type: { os: 'hvm', machine: 'q35' }, ...os },
})

const bios = (os: Os): Domain => ({ os: { type: { os: 'hvm' }, ...os } })

const onlyRaw = {
  ...bundledCapabilities,
  firmware: bundledCapabilities.firmware.filter(
    ({ mapping }) => mapping.device === 'flash' && mapping.code.format === 'raw',
  ),
}

const selected = (...features: Feature[]): Os => ({ firmwareSelection: { features } })

testRule('firmware-features', [
  {
    refused: bios(selected({ name: 'secure-boot', enabled: true })),
    causes: [
      'spec.domain.os.firmwareSelection: Forbidden: requires os.firmware, which selects a firmware automatically; firmware: efi',
    ],
    accepted: uefi({ firmware: 'efi', ...selected({ name: 'secure-boot', enabled: true }) }),
  },
  {
    refused: bios(selected({ name: 'secure-boot', enabled: true })),
    causes: [
      'spec.domain.os.firmwareSelection: Forbidden: requires os.firmware, which selects a firmware automatically; firmware: efi',
    ],
    accepted: bios({ firmwareSelection: {} }),
  },
  {
    refused: uefi({
      firmware: 'efi',
      ...selected({ name: 'secure-boot', enabled: false }, { name: 'enrolled-keys', enabled: true }),
    }),
    causes: [
      'spec.domain.os.firmwareSelection.features[1].enabled: Invalid value: true: must be false when secure-boot is disabled: enrolled keys enable it',
    ],
    accepted: uefi({
      firmware: 'efi',
      ...selected({ name: 'secure-boot', enabled: true }, { name: 'enrolled-keys', enabled: true }),
    }),
  },
  {
    refused: uefi({
      firmware: 'efi',
      ...selected({ name: 'enrolled-keys', enabled: true }, { name: 'secure-boot', enabled: false }),
    }),
    causes: [
      'spec.domain.os.firmwareSelection.features[0].enabled: Invalid value: true: must be false when secure-boot is disabled: enrolled keys enable it',
    ],
    accepted: uefi({
      firmware: 'efi',
      ...selected({ name: 'enrolled-keys', enabled: false }, { name: 'secure-boot', enabled: false }),
    }),
  },
])

const pflash = { readonly: true, type: 'pflash' as const, value: '/code.fd' }

testRule('firmware-nvram', [
  {
    refused: bios({ firmware: 'bios', nvram: { value: '/vars.fd' } }),
    causes: ['spec.domain.os.nvram: Forbidden: must not be set for firmware bios, which has no variables'],
    accepted: bios({ firmware: 'bios' }),
  },
  {
    refused: uefi({ loader: { ...pflash, stateless: true }, nvram: { value: '/vars.fd' } }),
    causes: ['spec.domain.os.nvram: Forbidden: must not be set for a stateless loader, which has no variables'],
    accepted: uefi({ loader: { ...pflash, stateless: true } }),
  },
  {
    refused: uefi({ loader: { ...pflash, stateless: true }, nvram: { template: '/vars.fd' } }),
    causes: [
      'spec.domain.os.nvram.template: Forbidden: must not be set for a stateless loader, which has no variables',
    ],
    accepted: uefi({ loader: pflash, nvram: { template: '/vars.fd', value: '/mine.fd' } }),
  },
  {
    refused: bios({ loader: { type: 'rom', value: '/bios.bin', stateless: false } }),
    causes: ['spec.domain.os.loader.stateless: Invalid value: false: must be true: only UEFI on pflash has variables'],
    accepted: uefi({ loader: { ...pflash, stateless: false }, nvram: { template: '/vars.fd', value: '/mine.fd' } }),
  },
  {
    refused: bios({ firmware: 'bios', loader: { stateless: false } }),
    causes: ['spec.domain.os.loader.stateless: Invalid value: false: must be true: only UEFI on pflash has variables'],
    accepted: uefi({ firmware: 'efi', loader: { stateless: false } }),
  },
])

testRule('firmware-loader', [
  {
    refused: bios({ loader: {} }),
    causes: ['spec.domain.os.loader.value: Required value: must be set when os.firmware is not; or firmware: efi'],
    accepted: bios({ loader: { value: '/usr/share/seabios/bios.bin' } }),
  },
  {
    refused: uefi({ loader: { readonly: true, type: 'pflash' } }),
    causes: [
      "spec.domain.os.loader.value: Required value: must be set when os.firmware is not (libvirt's default, firmware); or firmware: efi",
    ],
    accepted: uefi({ firmware: 'efi', loader: { readonly: true, type: 'pflash' } }),
  },
  {
    refused: uefi({ nvram: { value: '/vars.fd' } }),
    causes: ['spec.domain.os.loader.value: Required value: must be set when os.firmware is not; or firmware: efi'],
    accepted: uefi({ loader: pflash, nvram: { value: '/vars.fd', template: '/t.fd' } }),
  },
])

testRule('firmware-found', [
  {
    refused: uefi({ firmware: 'efi', loader: { readonly: false } }),
    causes: [
      'spec.domain.os.firmware: Invalid value: "efi": no firmware of the node fits machine type q35 and loader [node without firmware efi for machine type q35 and loader]',
    ],
    accepted: uefi({ firmware: 'efi', loader: { readonly: true } }),
  },
  {
    refused: { features: { acpi: {} }, os: { type: { os: 'hvm', machine: 'microvm' }, firmware: 'bios' } },
    causes: [
      'spec.domain.os.firmware: Invalid value: "bios": no firmware of the node fits machine type microvm and loader [node without firmware bios for machine type microvm and loader]',
    ],
    accepted: bios({ firmware: 'bios' }),
  },
  {
    capabilities: onlyRaw,
    refused: uefi({ firmware: 'efi', nvram: { format: 'qcow2' } }),
    causes: [
      'spec.domain.os.firmware: Invalid value: "efi": no firmware of the node fits machine type q35 and loader, nvram [node without firmware efi for machine type q35 and loader, nvram]',
    ],
    // libvirt looks for the format of the loader, and gives the variable store the format of the firmware.
    accepted: uefi({ firmware: 'efi', loader: { format: 'raw' }, nvram: { format: 'qcow2' } }),
  },
  {
    capabilities: onlyRaw,
    refused: uefi({ firmware: 'efi', loader: { format: 'qcow2' } }),
    causes: [
      'spec.domain.os.firmware: Invalid value: "efi": no firmware of the node fits machine type q35 and loader [node without firmware efi for machine type q35 and loader]',
    ],
    accepted: uefi({ firmware: 'efi', nvram: { format: 'raw' } }),
  },
])

testSilent('firmware-found', [
  uefi({ firmware: 'efi', loader: { format: 'qcow2' } }),
  uefi({ firmware: 'efi', nvram: { format: 'qcow2' } }),
  uefi({ firmware: 'efi', loader: { format: 'qcow2' }, nvram: { format: 'qcow2' } }),
])

testRule('firmware-machine', [
  {
    refused: uefi({ firmware: 'efi' }, {}),
    causes: ['spec.domain.features.acpi: Required value: must be set: UEFI requires ACPI; features: {acpi: {}}'],
    accepted: uefi({ firmware: 'efi' }),
  },
  {
    refused: uefi({ loader: pflash }, {}),
    causes: ['spec.domain.features.acpi: Required value: must be set: UEFI requires ACPI; features: {acpi: {}}'],
    accepted: uefi({ loader: pflash }),
  },
  {
    refused: uefi({ loader: pflash }, {}),
    causes: ['spec.domain.features.acpi: Required value: must be set: UEFI requires ACPI; features: {acpi: {}}'],
    accepted: { os: { type: { os: 'hvm', machine: 'q35' }, loader: { type: 'rom', value: '/bios.bin' } } },
  },
  {
    refused: {
      ...uefi({ loader: { ...pflash, secure: true } }, { acpi: {}, smm: { state: true } }),
      os: { type: { os: 'hvm', machine: 'pc' }, loader: { ...pflash, secure: true } },
    },
    causes: ['spec.domain.os.loader.secure: Invalid value: true: is only supported on machine type q35'],
    accepted: uefi({ loader: { ...pflash, secure: true } }, { acpi: {}, smm: { state: true } }),
  },
  {
    refused: {
      ...uefi({}, { acpi: {}, smm: { state: true } }),
      os: { type: { os: 'hvm', machine: 'q35', arch: 'i686' }, loader: { ...pflash, secure: true } },
    },
    causes: ['spec.domain.os.loader.secure: Invalid value: true: is only supported on x86_64'],
    accepted: uefi({ loader: { ...pflash, secure: true } }, { acpi: {}, smm: { state: true } }),
  },
  {
    refused: uefi({ loader: { ...pflash, secure: true } }),
    causes: [
      'spec.domain.features.smm.state: Required value: must be true: Secure Boot requires system management mode',
    ],
    accepted: uefi({ loader: { ...pflash, secure: false } }),
  },
  {
    refused: uefi({ loader: { ...pflash, secure: true } }, { acpi: {}, smm: { state: false } }),
    causes: [
      'spec.domain.features.smm.state: Required value: must be true: Secure Boot requires system management mode',
    ],
    accepted: uefi({ firmware: 'efi', loader: { secure: true } }),
  },
])

type Nvram = NonNullable<Os['nvram']>

const nvram = (nvram: Nvram): Domain => uefi({ loader: pflash, nvram })

testSilent('firmware-machine', [
  uefi({ firmware: 'efi', loader: { secure: true } }, { acpi: {}, smm: { state: false } }),
])

testRule('firmware-nvram-source', [
  {
    refused: nvram({ type: 'dir', source: { dir: '/d' } }),
    causes: ['spec.domain.os.nvram.type: Unsupported value: "dir": must be one of file, block, network'],
    accepted: nvram({ type: 'file', source: { file: '/d' } }),
  },
  {
    refused: nvram({ type: 'block' }),
    causes: ['spec.domain.os.nvram.source: Required value: must be set for type block'],
    accepted: nvram({ type: 'block', source: { dev: '/dev/sda' } }),
  },
  {
    refused: nvram({
      type: 'network',
      source: {
        protocol: 'nbd',
        host: { name: 'h' },
        slices: { slice: { type: 'storage', offset: 0, size: 512 } },
        reservations: { managed: true },
      },
    }),
    causes: [
      'spec.domain.os.nvram.source.slices: Forbidden: must not be set for nvram',
      'spec.domain.os.nvram.source.reservations: Forbidden: must not be set for nvram',
    ],
    accepted: nvram({ type: 'network', source: { protocol: 'nbd', host: { name: 'h' } } }),
  },
])

testRule('firmware-nvram', [
  {
    refused: bios({ firmware: 'bios', loader: { type: 'pflash', stateless: false } }),
    causes: ['spec.domain.os.loader.stateless: Invalid value: false: must be true: only UEFI on pflash has variables'],
    accepted: uefi({ firmware: 'efi', loader: { type: 'pflash', stateless: false } }),
  },
])

testRule('firmware-machine', [
  {
    refused: uefi({ firmware: 'efi' }, {}),
    causes: ['spec.domain.features.acpi: Required value: must be set: UEFI requires ACPI; features: {acpi: {}}'],
    accepted: bios({}),
    capabilities: { ...bundledCapabilities, firmware: [] },
  },
])
