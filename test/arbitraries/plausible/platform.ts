import fc from 'fast-check'
import { any, mostly, part, rarely, small, weighted, type Parts } from './part.ts'

const machines = weighted(
  [20, fc.constant('pc')],
  [20, fc.constant('q35')],
  [3, fc.constantFrom('pc-i440fx-6.2', 'pc-q35-5.2', 'pc-q35-8.1', 'pc-i440fx-2.12')],
  [1, fc.constantFrom('microvm', 'isapc')],
)

export const os = rarely(
  { type: part({ os: fc.constant('hvm'), machine: machines }, { arch: fc.constant('x86_64') }) },
  {
    boots: fc.array(part({ dev: any('os.boots.dev') }), { minLength: 1, maxLength: 2 }),
    bootmenu: part({ enable: fc.boolean() }, { timeout: small(65_535) }),
    firmware: fc.constant('efi'),
    smbios: part({ mode: fc.constantFrom('host', 'emulate') }),
    bios: part({}, { useserial: fc.boolean(), rebootTimeout: fc.integer({ min: -1, max: 32_767 }) }),
  },
)

export const features = rarely(
  { acpi: fc.constant({}) },
  {
    apic: part({}, { eoi: fc.boolean() }),
    pae: fc.constant({}),
    pmu: part({ state: fc.boolean() }),
    vmport: part({ state: fc.boolean() }),
    smm: part({ state: fc.boolean() }),
    vmcoreinfo: part({ state: fc.boolean() }),
    kvm: part({}, { hidden: part({ state: fc.boolean() }) }),
    hyperv: rarely(
      { mode: mostly('features.hyperv.mode', 'custom') },
      {
        relaxed: part({ state: fc.boolean() }),
        vapic: part({ state: fc.boolean() }),
        spinlocks: part({ state: fc.boolean() }, { retries: small(8191) }),
      },
    ),
    ioapic: part({ driver: any('features.ioapic.driver') }),
  },
)

export const clock = rarely(
  {
    offset: weighted([9, fc.constantFrom('utc', 'localtime')], [1, fc.constant('variable')]),
  },
  {
    timers: fc.array(
      rarely(
        {
          name: weighted(
            [12, fc.constantFrom('rtc', 'pit', 'hpet', 'kvmclock', 'hypervclock', 'tsc')],
            [1, any('clock.timers.name')],
          ),
        },
        { present: fc.boolean(), tickpolicy: fc.constantFrom('delay', 'catchup') },
      ),
      { minLength: 1, maxLength: 3 },
    ),
    adjustment: any('clock.adjustment'),
  },
)

export const pm = part(
  {},
  { suspendToMem: part({ enabled: fc.boolean() }), suspendToDisk: part({ enabled: fc.boolean() }) },
)

export const lifecycle: Parts = {
  onPoweroff: mostly('onPoweroff', 'destroy'),
  onReboot: mostly('onReboot', 'destroy', 'restart'),
  onCrash: mostly('onCrash', 'destroy', 'restart', 'coredump-destroy'),
}
