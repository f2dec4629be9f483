import { scaled } from '../../api/domain/size.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const inBytes = { value: 'value', unit: 'unit', absent: 'MiB', to: 'bytes' } as const
const mebibyte = 1024n ** 2n
const q35 = { os: { type: { os: 'hvm' as const, machine: 'q35' } } }

export const smmTseg: Rule = {
  id: 'smm-tseg',
  description: 'Memory is set aside for system management mode on q35 machines, in whole MiB.',
  *check({ domain, spec }) {
    const tseg = spec.domain.features?.smm?.tseg
    if (!tseg) return
    const field = 'spec.domain.features.smm.tseg'
    if (chipsetOf(domain) !== 'q35') yield forbidden(field, undefined, 'may be given for machine type q35 only')
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

export const hypervValues: Rule = {
  id: 'hyperv',
  description:
    'Spinlocks of Hyper-V have a number of tries, 4095 at least; its vendor id has up to 12 characters and no comma.',
  *check({ domain }) {
    const { spinlocks, vendorId } = domain.features?.hyperv ?? {}
    const field = 'spec.domain.features.hyperv'
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

export const kvmDirtyRing: Rule = {
  id: 'kvm-dirty-ring',
  description: 'The ring of written pages has a power of two of entries, from 1024 to 65536.',
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

export const featureMachine: Rule = {
  id: 'feature-machine',
  description: 'Features of ARM are not for x86, and settings of emulation not for KVM.',
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

export const clockTimers: Rule = {
  id: 'clock-timers',
  description: 'The clock and its timers are those of a PC, and lose ticks as QEMU can.',
  *check({ domain: { clock } }) {
    if (!clock) return
    const { offset, timezone, start, timers = [] } = clock
    if (offset === 'timezone' && timezone === undefined)
      yield required('spec.domain.clock.timezone', 'must be given for offset timezone')
    if (offset === 'absolute' && start === undefined)
      yield required('spec.domain.clock.start', 'must be given for offset absolute')
    for (const [index, { name, tickpolicy, track }] of timers.entries()) {
      const at = `spec.domain.clock.timers[${index}]`
      if (name === undefined) yield required(`${at}.name`, 'must be given')
      if (name === 'platform' || name === 'armvtimer') yield unsupported(`${at}.name`, name, 'is no timer of a PC')
      if (name === 'rtc' && (tickpolicy === 'merge' || tickpolicy === 'discard')) {
        yield unsupported(`${at}.tickpolicy`, tickpolicy, 'is not possible for rtc: delay or catchup')
      }
      if (name === 'rtc' && track === 'boot')
        yield unsupported(`${at}.track`, track, 'is not possible for rtc: guest, wall or realtime')
      if (name === 'pit' && tickpolicy === 'merge')
        yield unsupported(`${at}.tickpolicy`, tickpolicy, 'is not possible for pit')
      if (name !== 'rtc' && track !== undefined) yield forbidden(`${at}.track`, track, 'may be given for rtc only')
      if ((name === 'kvmclock' || name === 'hypervclock') && tickpolicy !== undefined) {
        yield forbidden(`${at}.tickpolicy`, tickpolicy, `may not be given for ${name}`)
      }
    }
  },
  example: example(
    { clock: { timers: [{ name: 'rtc', tickpolicy: 'merge' }] } },
    { clock: { timers: [{ name: 'rtc', tickpolicy: 'catchup' }] } },
  ),
}

export const featureRules: readonly Rule[] = [smmTseg, hypervValues, kvmDirtyRing, featureMachine, clockTimers]
