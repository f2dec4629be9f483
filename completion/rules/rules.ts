import type { Capabilities } from '../../api/capabilities.ts'
import type { Cause } from '../../api/cause.ts'
import { listCauses, maxCauses, noCauses } from '../../api/causes.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { indexRules, keysWithin } from './about.ts'
import { addressRules } from './address.ts'
import { attachedVolume } from './attached-volume.ts'
import { audioRules } from './audio.ts'
import { biosSerial } from './bios.ts'
import { bootRules } from './boot.ts'
import { characterRules } from './character.ts'
import { clockTimers } from './clock.ts'
import { consoleSerial } from './console.ts'
import { controllerRules } from './controller.ts'
import { crypto } from './crypto.ts'
import { cpuHost } from './cpu-host.ts'
import { cpuRules } from './cpu.ts'
import { cputuneRules } from './cputune.ts'
import { diskNetworkRules } from './disk-network.ts'
import { diskSourceRules } from './disk-source.ts'
import { diskDriverRules } from './disk-driver.ts'
import { diskIdentityRules } from './disk-identity.ts'
import { diskRules } from './disk.ts'
import { driveRules } from './drive.ts'
import { featureRules } from './feature.ts'
import { filesystem } from './filesystem.ts'
import { filesystemVolume } from './filesystem-volume.ts'
import { dedicatedCpus } from './dedicated-cpus.ts'
import { deviceStateVolume } from './device-state-volume.ts'
import { firmwareRules } from './firmware.ts'
import { graphicsRules } from './graphics.ts'
import { hostdevOptionRules } from './hostdev-options.ts'
import { hostDeviceRules } from './host-device.ts'
import { hostdevRules } from './hostdev.ts'
import { hugePages } from './huge-pages.ts'
import { idmapBoth } from './idmap.ts'
import { imageFormat } from './image-format.ts'
import { inputDevice } from './input.ts'
import { interfaceTypeRules } from './interface-type.ts'
import { interfaceRules } from './interface.ts'
import { iommuRules } from './iommu.ts'
import { iothreadRules } from './iothread.ts'
import { keywrapCiphers } from './keywrap.ts'
import { resourcePartition } from './resource.ts'
import { lease } from './lease.ts'
import { lifecycleActions } from './lifecycle.ts'
import { machineRules } from './machine.ts'
import { memoryDeviceRules } from './memory-device.ts'
import { memoryRequest } from './memory-request.ts'
import { memoryRules } from './memory.ts'
import { reservedMetadata } from './metadata.ts'
import { requiredFields } from './needed.ts'
import { numaRules } from './numa.ts'
import { panics } from './panic.ts'
import { pciAddressRules } from './pci-address.ts'
import { pciControllerRules } from './pci-controller.ts'
import { perfEvents } from './perf.ts'
import { portForwardRules } from './port-forward.ts'
import { probeAgent, probePort } from './probe.ts'
import { pstoreSize } from './pstore.ts'
import { reach } from './reach.ts'
import { rng } from './rng.ts'
import { rom } from './rom.ts'
import type { Rule, RuleContext, Subject } from './rule.ts'
import { seclabelRules } from './seclabel.ts'
import { serialRules } from './serial.ts'
import { sharedMemory } from './shared-memory.ts'
import { shmemRules } from './shmem.ts'
import { smartcards } from './smartcard.ts'
import { spiceGraphics } from './spice.ts'
import { sysinfoRules } from './sysinfo.ts'
import { tapRules } from './tap.ts'
import { throttleRules } from './throttle.ts'
import { tpmRules } from './tpm.ts'
import { usbRules } from './usb.ts'
import { videoRules } from './video.ts'
import { volumeRules } from './volume.ts'
import { watchdogRules } from './watchdog.ts'
import { warningsOf } from './warnings.ts'

/** All rules; causes are reported in their order. */
export const rules: readonly Rule[] = [
  reach,
  imageFormat,
  requiredFields,
  ...machineRules,
  ...memoryRules,
  hugePages,
  memoryRequest,
  ...numaRules,
  ...cpuRules,
  cpuHost,
  ...cputuneRules,
  ...iothreadRules,
  ...firmwareRules,
  ...bootRules,
  ...featureRules,
  clockTimers,
  ...sysinfoRules,
  reservedMetadata,
  perfEvents,
  keywrapCiphers,
  resourcePartition,
  idmapBoth,
  ...seclabelRules,
  ...volumeRules,
  deviceStateVolume,
  attachedVolume,
  dedicatedCpus,
  ...diskRules,
  ...diskDriverRules,
  ...diskIdentityRules,
  ...throttleRules,
  ...diskSourceRules,
  ...diskNetworkRules,
  ...driveRules,
  ...addressRules,
  ...controllerRules,
  ...pciControllerRules,
  ...pciAddressRules,
  ...usbRules,
  ...interfaceRules,
  ...interfaceTypeRules,
  ...portForwardRules,
  probePort,
  probeAgent,
  ...tapRules,
  rom,
  ...hostdevRules,
  ...hostDeviceRules,
  ...hostdevOptionRules,
  ...characterRules,
  ...serialRules,
  ...graphicsRules,
  ...videoRules,
  ...audioRules,
  inputDevice,
  filesystem,
  filesystemVolume,
  ...watchdogRules,
  panics,
  smartcards,
  rng,
  lease,
  crypto,
  ...tpmRules,
  ...iommuRules,
  ...shmemRules,
  ...memoryDeviceRules,
  lifecycleActions,
  biosSerial,
  spiceGraphics,
  pstoreSize,
  consoleSerial,
  sharedMemory,
]

const rulesAbout = indexRules(rules)

export interface Findings {
  readonly causes: readonly Cause[]
  /** About values that are valid but probably not intended. */
  readonly warnings: readonly string[]
  /**
   * The causes on a node with other capabilities, but only those of rules that read capabilities: the causes of the
   * other rules do not depend on the node.
   */
  readonly causesOn: (capabilities: Capabilities) => readonly Cause[]
}

/** The causes against a completed spec, and warnings. */
export function checkRules(spec: VirtualMachineSpec, context: RuleContext): Findings {
  const whole = { ...context, spec, domain: canonicalSpelling(spec.domain) }
  const keys = keysWithin(whole.domain)
  const { causes, reading } = runRules(rulesAbout(keys), whole)
  return {
    causes,
    warnings: warningsOf(whole, keys),
    causesOn: (capabilities) => runRules(reading, { ...whole, capabilities }).causes,
  }
}

/**
 * The causes of some rules. `reading` has those that have read the capabilities; the others would find the same with
 * different ones.
 */
export function runRules(
  selected: readonly Rule[],
  { capabilities, ...others }: Subject,
): { readonly causes: readonly Cause[]; readonly reading: readonly Rule[] } {
  const { without = [], originOf } = others
  const causes = noCauses()
  const reading: Rule[] = []
  const isSure = sureWithout(without)
  const watch = watchedWithout(without)
  let hasRead = false
  const whole: Subject = {
    ...others,
    get capabilities() {
      hasRead = true
      return capabilities
    },
  }
  for (const rule of selected) {
    const misses: string[] = []
    // Each rule gets its own proxy, because values cached per domain would hide which rule reads a missing member.
    const subject = without.length === 0 ? whole : watch(whole, misses)
    hasRead = false
    const findings = [...rule.check(subject)]
    if (hasRead) reading.push(rule)
    if (misses.length > 0) continue
    for (const finding of findings) {
      if (causes.list.length >= maxCauses) {
        causes.more += 1
        continue
      }
      const cause = { rule: rule.id, ...finding, origin: originOf(finding.field) }
      if (isSure(cause)) causes.list.push(cause)
    }
  }
  return { causes: listCauses(causes, 'spec'), reading }
}

const watchedWithout = (without: readonly string[]) => {
  const [ofSpec, ofDomain] = [missingIn('spec', without), missingIn('spec.domain', without)]
  return (whole: Subject, misses: string[]): Subject => ({
    ...whole,
    spec: watched(whole.spec, ofSpec, misses),
    domain: watched(whole.domain, ofDomain, misses),
    get capabilities() {
      return whole.capabilities
    },
  })
}

/**
 * The members from which an invalid part was removed. Devices are excepted; `isSure` drops only the causes of incomplete
 * devices.
 */
function missingIn(path: string, without: readonly string[]): ReadonlySet<string> {
  const missing = new Set(
    without.flatMap((one) => (one.startsWith(`${path}.`) ? (/^\w+/.exec(one.slice(path.length + 1)) ?? []) : [])),
  )
  missing.delete('domain')
  missing.delete('devices')
  return missing
}

/** An object that records in `misses` when a rule reads a missing member: the findings of such a rule are unreliable. */
function watched<T extends object>(object: T, missing: ReadonlySet<string>, misses: string[]): T {
  if (missing.size === 0) return object
  return new Proxy(object, {
    get(target, key, receiver) {
      if (typeof key === 'string' && missing.has(key)) misses.push(key)
      return Reflect.get(target, key, receiver)
    },
  })
}

/** Drops causes about defaults that replace a removed value, and about devices from which a value was removed. */
function sureWithout(without: readonly string[]): (cause: Cause) => boolean {
  if (without.length === 0) return () => true
  const missing = new Set(without.map(deviceOf))
  return ({ field, origin }) => origin?.by !== 'default' && !missing.has(deviceOf(field))
}

/** The path of the device of a field; the field itself if it is not part of a device. */
const deviceOf = (field: string): string => /^spec\.domain\.devices\.\w+(?:\[\d+\])?/.exec(field)?.[0] ?? field
