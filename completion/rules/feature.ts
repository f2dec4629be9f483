import { scaled } from '../../api/domain/size.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const inBytes = { value: 'value', unit: 'unit', absent: 'MiB', to: 'bytes' } as const
const mebibyte = 1024n ** 2n
const q35 = { os: { type: { os: 'hvm' as const, machine: 'q35' } } }

const smmTseg: Rule = {
  id: 'smm-tseg',
  description: 'Memory is set aside for system management mode on q35 machines, in whole MiB.',
  about: ['tseg'],
  *check({ domain, spec }) {
    const tseg = spec.domain.features?.smm?.tseg
    if (!tseg) return
    const field = 'spec.domain.features.smm.tseg'
    if (chipsetOf(domain) !== 'q35' && domain.features?.smm?.state !== false)
      yield forbidden(field, undefined, 'may be given for machine type q35 only')
    const bytes = scaled(inBytes, tseg.value, tseg.unit)?.value
    if (bytes !== undefined && bytes % mebibyte !== 0n)
      yield invalid(`${field}.value`, tseg.value, 'must be a whole number of MiB')
  },
  example: example(
    { ...q35, features: { smm: { state: true, tseg: { unit: 'KiB', value: 12_345 } } } },
    { ...q35, features: { smm: { state: true, tseg: { unit: 'KiB', value: 12_288 } } } },
  ),
}

/** Hyper-V's own limit. */
const minRetries = 4095

const hypervValues: Rule = {
  id: 'hyperv',
  description:
    'Spinlocks of Hyper-V have a number of tries, 4095 at least; its vendor id has up to 12 characters and no comma.',
  about: ['hyperv'],
  *check({ domain }) {
    const { spinlocks, vendorId, mode, ...others } = domain.features?.hyperv ?? {}
    const field = 'spec.domain.features.hyperv'
    if (mode === 'passthrough') {
      for (const [key, value] of Object.entries({ spinlocks, vendorId, ...others })) {
        if (value) yield forbidden(`${field}.${key}`, undefined, 'may not be given for mode passthrough: all are on')
      }
    }
    if (spinlocks?.state === true) {
      const retries = numberOf(spinlocks.retries)
      if (retries === undefined) yield required(`${field}.spinlocks.retries`, 'must be given where spinlocks are on')
      else if (retries < minRetries)
        yield invalid(`${field}.spinlocks.retries`, retries, `must be at least ${minRetries}`)
    }
    if (vendorId?.state === true) {
      if (vendorId.value === undefined) yield required(`${field}.vendorId.value`, 'must be given where vendorId is on')
      else if (vendorId.value.includes(','))
        yield invalid(`${field}.vendorId.value`, vendorId.value, 'may not have a comma')
    }
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
  description: 'The ring of written pages has a power of two of entries, from 1024 to 65536.',
  about: ['dirtyRing'],
  *check({ domain }) {
    const { dirtyRing } = domain.features?.kvm ?? {}
    if (dirtyRing?.state !== true) return
    const size = numberOf(dirtyRing.size) ?? 0
    if (size < minRing || size > maxRing || (size & (size - 1)) !== 0) {
      yield invalid(
        'spec.domain.features.kvm.dirtyRing.size',
        dirtyRing.size ?? '',
        `must be a power of two from ${minRing} to ${maxRing}`,
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
  description: 'Features of ARM are not for x86, and settings of emulation not for KVM.',
  about: ['gic', 'tcg'],
  *check({ domain: { features, type } }) {
    if (features?.gic)
      yield unsupported('spec.domain.features.gic', undefined, 'is the interrupt controller of ARM machines')
    if (features?.tcg && type !== undefined && type !== 'qemu') {
      yield forbidden(
        'spec.domain.features.tcg',
        undefined,
        `is about emulation, and may not be given for type ${type}`,
      )
    }
  },
  example: example({ features: { gic: { version: '3' } } }, { features: { acpi: {} } }),
}

/** In bytes: QEMU's code reaches no farther on x86. */
const largestTranslationCache = 2n * 1024n * mebibyte

const featureValues: Rule = {
  id: 'feature-values',
  description:
    'The cache of translated code is whole MiB, 2 GiB at most; the port of VMware needs the PS/2 controller, as a PC has it.',
  about: ['vmport', 'ps2', 'tcg'],
  *check({ domain, spec }) {
    const { vmport, ps2 } = domain.features ?? {}
    const field = 'spec.domain.features'
    const cache = spec.domain.features?.tcg?.tbCache
    const bytes = scaled(inBytes, cache?.value, cache?.unit)?.value
    if (bytes !== undefined && bytes % mebibyte !== 0n)
      yield invalid(`${field}.tcg.tbCache.value`, cache?.value, 'must be a whole number of MiB')
    if (bytes !== undefined && bytes > largestTranslationCache)
      yield invalid(`${field}.tcg.tbCache.value`, cache?.value, 'must be at most 2 GiB: QEMU uses no more')
    if (vmport && vmport.state !== false && ps2?.state === false)
      yield invalid(`${field}.vmport.state`, vmport.state ?? true, 'is possible with features.ps2 only, which is off')
    if (chipsetOf(domain) !== 'microvm') return
    for (const [key, value] of Object.entries({ vmport, ps2 })) {
      if (value) yield unsupported(`${field}.${key}`, undefined, 'is not there on machine type microvm')
    }
  },
  example: example(
    { features: { vmport: { state: true }, ps2: { state: false } } },
    { features: { vmport: { state: true }, ps2: { state: true } } },
  ),
}

export const featureRules: readonly Rule[] = [smmTseg, hypervValues, kvmDirtyRing, featureMachine, featureValues]
