import type { Cause } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { MachineSpec } from '../../api/machine.ts'
import { bootRules } from './boot.ts'
import { characterRules } from './character.ts'
import { controllerRules } from './controller.ts'
import { cpuRules } from './cpu.ts'
import { diskSourceRules } from './disk-source.ts'
import { diskRules } from './disk.ts'
import { driveRules } from './drive.ts'
import { featureRules } from './feature.ts'
import { firmwareRules } from './firmware.ts'
import { hostdevRules } from './hostdev.ts'
import { inputRules } from './input.ts'
import { interfaceRules } from './interface.ts'
import { iommuRules } from './iommu.ts'
import { iothreadExists } from './iothread.ts'
import { machineRules } from './machine.ts'
import { memoryDeviceRules } from './memory-device.ts'
import { memoryRules } from './memory.ts'
import { numaRules } from './numa.ts'
import { pciRules } from './pci.ts'
import { reach } from './reach.ts'
import type { Rule, RuleContext, Subject } from './rule.ts'
import { screenRules } from './screen.ts'
import { seclabelRules } from './seclabel.ts'
import { shmemRules } from './shmem.ts'
import { sysinfoRules } from './sysinfo.ts'
import { tpmRules } from './tpm.ts'
import { usbRules } from './usb.ts'
import { volumeRules } from './volume.ts'

/** All rules; their order is the order in which causes are told. */
export const rules: readonly Rule[] = [
  reach,
  ...machineRules,
  ...memoryRules,
  ...numaRules,
  ...cpuRules,
  iothreadExists,
  ...firmwareRules,
  ...bootRules,
  ...featureRules,
  ...sysinfoRules,
  ...seclabelRules,
  ...volumeRules,
  ...diskRules,
  ...diskSourceRules,
  ...driveRules,
  ...controllerRules,
  ...pciRules,
  ...usbRules,
  ...interfaceRules,
  ...hostdevRules,
  ...characterRules,
  ...screenRules,
  ...inputRules,
  ...tpmRules,
  ...iommuRules,
  ...shmemRules,
  ...memoryDeviceRules,
]

/** Everything that is wrong with a completed spec, and what works but is surely not meant. */
export function checkRules(
  spec: MachineSpec,
  context: RuleContext,
): { readonly causes: readonly Cause[]; readonly warnings: readonly string[] } {
  const subject: Subject = { ...context, spec, domain: canonicalSpelling(spec.domain) }
  const causes = rules.flatMap(({ id, check }) =>
    [...check(subject)].map((finding): Cause => ({ rule: id, ...finding, origin: context.originOf(finding.field) })),
  )
  return { causes, warnings: [] }
}
