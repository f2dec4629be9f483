import { shorten } from '../../api/refusal.ts'
import { indexRules } from './about.ts'
import type { Subject } from './rule.ts'
import { zeroAddress } from './warnings/address.ts'
import { bootDevice, bootKind, deprecatedMachine } from './warnings/boot.ts'
import { unknownCpu } from './warnings/cpu.ts'
import { oldScsi, unsafeCache, volumeUnused, windowsVirtio } from './warnings/disk.ts'
import { openScreen } from './warnings/graphics.ts'
import { sameMac, takenMac, unknownCard } from './warnings/interface.ts'
import { memoryAmount, memorySum } from './warnings/memory.ts'
import { inlineSecret } from './warnings/secret.ts'
import type { Warning } from './warnings/warning.ts'

export const warnings: readonly Warning[] = [
  bootDevice,
  bootKind,
  deprecatedMachine,
  memoryAmount,
  memorySum,
  unknownCpu,
  unsafeCache,
  oldScsi,
  windowsVirtio,
  volumeUnused,
  unknownCard,
  sameMac,
  takenMac,
  zeroAddress,
  openScreen,
  inlineSecret,
]

const warningsAbout = indexRules(warnings)

/** The API server may cut what is longer. */
const maxCharacters = 119

/** Beyond so many, the API server drops them anyway: it takes 4 KiB of warnings altogether. */
const maxWarnings = 20

/**
 * What works but is surely not meant, a short line each.
 * @param keys of the domain
 */
export const warningsOf = (subject: Subject, keys: ReadonlySet<string>): readonly string[] => {
  const told: string[] = []
  for (const { check } of warningsAbout(keys)) {
    for (const text of check(subject)) {
      if (told.length >= maxWarnings) return told
      told.push(shorten(text, maxCharacters))
    }
  }
  return told
}
