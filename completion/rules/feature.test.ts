import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

type Features = NonNullable<Domain['features']>

const q35 = (features: Features): Domain => ({ os: { type: { os: 'hvm', machine: 'q35' } }, features })

const tseg = (value: number, unit: 'KiB' | 'MiB' = 'MiB', state = true): Features => ({
  smm: { state, tseg: { unit, value } },
})

testRule('smm-tseg', [
  {
    refused: q35(tseg(12_345, 'KiB')),
    causes: ['spec.domain.features.smm.tseg.value: Invalid value: 12345: must be a whole number of MiB'],
    accepted: q35(tseg(12_345, 'KiB', false)),
  },
  {
    refused: q35(tseg(12_345, 'KiB')),
    causes: ['spec.domain.features.smm.tseg.value: Invalid value: 12345: must be a whole number of MiB'],
    accepted: q35(tseg(12_288, 'KiB')),
  },
  {
    refused: { features: tseg(48) },
    causes: ['spec.domain.features.smm.tseg: Forbidden: is only supported for machine type q35'],
    accepted: q35(tseg(48)),
  },
  {
    refused: { features: tseg(48) },
    causes: ['spec.domain.features.smm.tseg: Forbidden: is only supported for machine type q35'],
    accepted: { features: tseg(48, 'MiB', false) },
  },
])

const hyperv = (hyperv: NonNullable<Features['hyperv']>): Domain => ({ features: { hyperv } })

testRule('hyperv', [
  {
    refused: hyperv({ spinlocks: { state: true, retries: 4094 } }),
    causes: ['spec.domain.features.hyperv.spinlocks.retries: Invalid value: 4094: must be at least 4095'],
    accepted: hyperv({ spinlocks: { state: true, retries: 4095 } }),
  },
  {
    refused: hyperv({ vendorId: { state: true } }),
    causes: ['spec.domain.features.hyperv.vendorId.value: Required value: must be set when vendorId is enabled'],
    accepted: hyperv({ vendorId: { state: false } }),
  },
  {
    refused: hyperv({ spinlocks: { state: true } }),
    causes: ['spec.domain.features.hyperv.spinlocks.retries: Required value: must be set when spinlocks are enabled'],
    accepted: hyperv({ spinlocks: { state: false } }),
  },
  {
    refused: hyperv({ vendorId: { state: true } }),
    causes: ['spec.domain.features.hyperv.vendorId.value: Required value: must be set when vendorId is enabled'],
    accepted: hyperv({ vendorId: { state: true, value: 'a b' } }),
  },
  {
    refused: hyperv({
      mode: 'passthrough',
      relaxed: { state: true },
      spinlocks: { state: false },
      vendorId: { state: false },
    }),
    causes: [
      'spec.domain.features.hyperv.spinlocks: Forbidden: must not be set for mode passthrough, which enables all features',
      'spec.domain.features.hyperv.vendorId: Forbidden: must not be set for mode passthrough, which enables all features',
      'spec.domain.features.hyperv.relaxed: Forbidden: must not be set for mode passthrough, which enables all features',
    ],
    accepted: hyperv({ mode: 'custom', relaxed: { state: true } }),
  },
])

const ring = (size?: number, state = true): Domain => ({
  features: { kvm: { dirtyRing: { state, ...(size === undefined ? {} : { size }) } } },
})

testRule('kvm-dirty-ring', [
  {
    refused: ring(),
    causes: [
      'spec.domain.features.kvm.dirtyRing.size: Invalid value: "": must be a power of two between 1024 and 65536',
    ],
    accepted: ring(undefined, false),
  },
  {
    refused: ring(512),
    causes: [
      'spec.domain.features.kvm.dirtyRing.size: Invalid value: 512: must be a power of two between 1024 and 65536',
    ],
    accepted: ring(1024),
  },
  {
    refused: ring(131_072),
    causes: [
      'spec.domain.features.kvm.dirtyRing.size: Invalid value: 131072: must be a power of two between 1024 and 65536',
    ],
    accepted: ring(65_536),
  },
  {
    refused: ring(1025),
    causes: [
      'spec.domain.features.kvm.dirtyRing.size: Invalid value: 1025: must be a power of two between 1024 and 65536',
    ],
    accepted: ring(2048),
  },
])

testRule('feature-machine', [
  {
    refused: { features: { gic: { version: '3' } } },
    causes: ['spec.domain.features.gic: Unsupported value: is not supported on x86'],
    accepted: { features: { acpi: {} } },
  },
  {
    refused: { features: { tcg: { tbCache: { unit: 'MiB', value: 1 } } } },
    causes: ['spec.domain.features.tcg: Forbidden: can only be set for type qemu, not for kvm'],
    accepted: { type: 'qemu', features: { tcg: { tbCache: { unit: 'MiB', value: 1 } } } },
  },
])

const cache = (value: number, unit: 'KiB' | 'MiB' | 'GiB'): Domain => ({
  type: 'qemu',
  features: { tcg: { tbCache: { unit, value } } },
})

const microvm = (features: Features): Domain => ({
  os: { type: { os: 'hvm', machine: 'microvm' } },
  features,
  devices: { memballoon: { model: 'none' }, controllers: [{ type: 'usb', index: 0, model: 'none' }] },
})

testRule('feature-values', [
  {
    refused: { type: 'qemu', features: { tcg: { tbCache: { value: 1 } } } },
    causes: ['spec.domain.features.tcg.tbCache.value: Invalid value: 1: must be a whole number of MiB'],
    accepted: { type: 'qemu', features: { tcg: { tbCache: { value: 1024 } } } },
  },
  {
    refused: cache(1025, 'KiB'),
    causes: ['spec.domain.features.tcg.tbCache.value: Invalid value: 1025: must be a whole number of MiB'],
    accepted: cache(1024, 'KiB'),
  },
  {
    refused: cache(2049, 'MiB'),
    causes: ['spec.domain.features.tcg.tbCache.value: Invalid value: 2049: must be at most 2 GiB, the limit of QEMU'],
    accepted: cache(2, 'GiB'),
  },
  {
    refused: { features: { vmport: { state: true }, ps2: { state: false } } },
    causes: ['spec.domain.features.vmport.state: Invalid value: true: requires features.ps2, which is disabled'],
    accepted: { features: { vmport: { state: true }, ps2: { state: true } } },
  },
  {
    refused: { features: { vmport: {}, ps2: { state: false } } },
    causes: [
      "spec.domain.features.vmport.state: Invalid value: true: requires features.ps2, which is disabled (libvirt's default, feature-state)",
    ],
    accepted: { features: { vmport: { state: false }, ps2: { state: false } } },
  },
  {
    refused: { features: { vmport: { state: true }, ps2: { state: false } } },
    causes: ['spec.domain.features.vmport.state: Invalid value: true: requires features.ps2, which is disabled'],
    accepted: { features: { ps2: { state: false } } },
  },
  {
    refused: microvm({ vmport: { state: true }, ps2: { state: true } }),
    causes: [
      'spec.domain.features.vmport: Unsupported value: is not supported by machine type microvm',
      'spec.domain.features.ps2: Unsupported value: is not supported by machine type microvm',
    ],
    accepted: microvm({}),
  },
])
