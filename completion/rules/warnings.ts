import { shorten } from '../../api/shorten.ts'
import { indexRules } from './about.ts'
import type { Subject } from './rule.ts'
import { bootDevice, bootKind, deprecatedMachine } from './warnings/boot.ts'
import { unknownCpu } from './warnings/cpu.ts'
import { oldScsi, uncachedImage, unsafeCache, volumeUnused, windowsVirtio } from './warnings/disk.ts'
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
  uncachedImage,
  unknownCard,
  sameMac,
  takenMac,
  openScreen,
  inlineSecret,
]

const warningsAbout = indexRules(warnings)

/** The API server may truncate longer warnings. */
const maxCharacters = 119

/** The API server accepts 4 KiB of warnings in total and drops the rest. */
const maxWarnings = 20

/**
 * Warnings about values that are valid but probably not intended, one short line each.
 * @param keys all keys of the domain, at any depth
 */
export const warningsOf = (subject: Subject, keys: ReadonlySet<string>): readonly string[] => {
  const lines: string[] = []
  for (const { check } of warningsAbout(keys)) {
    for (const text of check(subject)) {
      if (lines.length >= maxWarnings) return lines
      lines.push(shorten(text, maxCharacters))
    }
  }
  return lines
}
