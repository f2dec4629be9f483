import { scaled } from '../../api/domain/elements/size.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const inBytes = { value: 'value', unit: 'unit', absent: 'MiB', to: 'bytes' } as const
const mebibyte = 1024n ** 2n
const q35 = { os: { type: { os: 'hvm' as const, machine: 'q35' } } }

const smmTseg: Rule = {
  id: 'smm-tseg',
  description: 'Memory for system management mode requires machine type q35 and must be in whole MiB.',
  about: ['tseg'],
  *check({ domain, spec }) {
    const tseg = spec.domain.features?.smm?.tseg
    // libvirt ignores it while system management mode is off.
    if (!tseg || domain.features?.smm?.state === false) return
    const field = 'spec.domain.features.smm.tseg'
    if (chipsetOf(domain) !== 'q35') yield forbidden(field, undefined, 'is only supported for machine type q35')
    const bytes = scaled(inBytes, tseg.value, tseg.unit)?.value
    if (bytes !== undefined && bytes % mebibyte !== 0n)
      yield invalid(`${field}.value`, tseg.value, 'must be a whole number of MiB')
  },
  example: example(
    { ...q35, features: { smm: { state: true, tseg: { unit: 'KiB', value: 12_345 } } } },
    { ...q35, features: { smm: { state: true, tseg: { unit: 'KiB', value: 12_288 } } } },
  ),
}

/** The limit of Hyper-V. */
const minRetries = 4095

const hypervValues: Rule = {
  id: 'hyperv',
  description:
    'Hyper-V spinlocks require `retries` of at least 4095, the Hyper-V vendor id a value; mode passthrough excludes single features.',
  about: ['hyperv'],
  *check({ domain }) {
    const { spinlocks, vendorId, mode, ...others } = domain.features?.hyperv ?? {}
    const field = 'spec.domain.features.hyperv'
    if (mode === 'passthrough') {
      for (const [key, value] of Object.entries({ spinlocks, vendorId, ...others })) {
        if (value)
          yield forbidden(
            `${field}.${key}`,
            undefined,
            'must not be set for mode passthrough, which enables all features',
          )
      }
    }
    if (spinlocks?.state === true) {
      const retries = numberOf(spinlocks.retries)
      if (retries === undefined) yield required(`${field}.spinlocks.retries`, 'must be set when spinlocks are enabled')
      else if (retries < minRetries)
        yield invalid(`${field}.spinlocks.retries`, retries, `must be at least ${minRetries}`)
    }
    if (vendorId?.state === true && vendorId.value === undefined)
      yield required(`${field}.vendorId.value`, 'must be set when vendorId is enabled')
  },
  example: example(
    { features: { hyperv: { spinlocks: { state: true, retries: 4094 } } } },
    { features: { hyperv: { spinlocks: { state: true, retries: 4095 } } } },
  ),
}

const minRing = 1024
const maxRing = 65_536

const kvmDirtyRing: Rule = {
  id: 'kvm-dirty-ring',
  description: 'The size of the dirty ring must be a power of two between 1024 and 65536.',
  about: ['dirtyRing'],
  *check({ domain }) {
    const { dirtyRing } = domain.features?.kvm ?? {}
    if (dirtyRing?.state !== true) return
    const size = numberOf(dirtyRing.size) ?? 0
    if (size < minRing || size > maxRing || (size & (size - 1)) !== 0) {
      yield invalid(
        'spec.domain.features.kvm.dirtyRing.size',
        dirtyRing.size ?? '',
        `must be a power of two between ${minRing} and ${maxRing}`,
      )
    }
  },
  example: example(
    { features: { kvm: { dirtyRing: { state: true, size: 1000 } } } },
    { features: { kvm: { dirtyRing: { state: true, size: 1024 } } } },
  ),
}

const featureMachine: Rule = {
  id: 'feature-machine',
  description: 'Features of ARM are not supported on x86, and `tcg` requires emulation.',
  about: ['gic', 'tcg'],
  *check({ domain: { features, type } }) {
    if (features?.gic) yield unsupported('spec.domain.features.gic', undefined, 'is not supported on x86')
    if (features?.tcg && type !== undefined && type !== 'qemu') {
      yield forbidden('spec.domain.features.tcg', undefined, `can only be set for type qemu, not for ${type}`)
    }
  },
  example: example({ features: { gic: { version: '3' } } }, { features: { acpi: {} } }),
}

/** In bytes: the range of a jump in generated x86 code. */
const largestTranslationCache = 2n * 1024n * mebibyte

const featureValues: Rule = {
  id: 'feature-values',
  description:
    'The translation cache must be whole MiB, at most 2 GiB; `vmport` requires the PS/2 controller; machine type microvm has neither.',
  about: ['vmport', 'ps2', 'tcg'],
  *check({ domain, spec }) {
    const { vmport, ps2 } = domain.features ?? {}
    const field = 'spec.domain.features'
    const cache = spec.domain.features?.tcg?.tbCache
    const bytes = scaled({ ...inBytes, absent: 'KiB' }, cache?.value, cache?.unit)?.value
    if (bytes !== undefined && bytes % mebibyte !== 0n)
      yield invalid(`${field}.tcg.tbCache.value`, cache?.value, 'must be a whole number of MiB')
    if (bytes !== undefined && bytes > largestTranslationCache)
      yield invalid(`${field}.tcg.tbCache.value`, cache?.value, 'must be at most 2 GiB, the limit of QEMU')
    if (vmport && vmport.state !== false && ps2?.state === false)
      yield invalid(`${field}.vmport.state`, vmport.state ?? true, 'requires features.ps2, which is disabled')
    if (chipsetOf(domain) !== 'microvm') return
    for (const [key, value] of Object.entries({ vmport, ps2 })) {
      if (value) yield unsupported(`${field}.${key}`, undefined, 'is not supported by machine type microvm')
    }
  },
  example: example(
    { features: { vmport: { state: true }, ps2: { state: false } } },
    { features: { vmport: { state: true }, ps2: { state: true } } },
  ),
}

export const featureRules: readonly Rule[] = [smmTseg, hypervValues, kvmDirtyRing, featureMachine, featureValues]
