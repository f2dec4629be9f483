import type { Cause } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { renderCause } from '../../api/refusal.ts'
import { shorten } from '../../api/shorten.ts'
import type { Capabilities } from '../../api/capabilities.ts'
import { sizeOf } from '../../api/steps.ts'
import { byUser } from '../../presets/source.ts'
import { mostKinds } from '../checked-groups.ts'
import { rules, runRules } from './rules.ts'

/**
 * Rules that check one place only: a part that breaks them breaks them in every VM that contains it. Other rules need
 * the whole VM.
 */
const local: ReadonlySet<string> = new Set([
  'domain-type',
  'os-type',
  'cputune-limits',
  'disk-target',
  'disk-format',
  'disk-limits',
  'interface-driver',
  'interface-mac',
  'interface-model',
  'pci-address-range',
  'controller-index',
  'controller-model',
  'usb-ports',
  'graphics-listen',
  'video-model',
  'sysinfo-fwcfg',
  'hyperv',
  'kvm-dirty-ring',
  'clock-timers',
  'firmware-features',
  'memory-size',
])

/** Other reasons depend on the VM, which can add a missing field or remove a conflicting one. */
const finalReasons: readonly string[] = ['FieldValueInvalid', 'FieldValueNotSupported', 'FieldValueTooLong']

const maxCharacters = 119

const localRules = rules.filter(({ id }) => local.has(id))

/**
 * Why a VM that gets this part from a preset can never be valid, one line each.
 * @param nodes the capabilities of the nodes: a cause counts only if it applies on every node
 */
export function neverValid(domain: Domain, [first, ...others]: readonly Capabilities[]): readonly string[] {
  if (first === undefined) return []
  const part = { originOf: () => byUser, isGranted: () => true, spec: { domain }, domain: canonicalSpelling(domain) }
  const { causes, reading } = runRules(localRules, { ...part, capabilities: first })
  const final = causes.filter(({ rule, reason }) => local.has(rule) && finalReasons.includes(reason))
  const asked = reading.filter(({ id }) => final.some(({ rule }) => rule === id))
  // A cause on a part of the nodes is no cause.
  const isChecked = asked.length === 0 || others.length <= mostKinds(sizeOf(domain))
  const elsewhere = (isChecked ? others : []).map(
    (capabilities) => new Set(runRules(asked, { ...part, capabilities }).causes.map(keyOf)),
  )
  const dependent = new Set(asked.map(({ id }) => id))
  const isEverywhere = (cause: Cause): boolean =>
    !dependent.has(cause.rule) || (isChecked && elsewhere.every((keys) => keys.has(keyOf(cause))))
  return final
    .filter(isEverywhere)
    .map((cause) => shorten(`no VM with this can run: ${cause.field}: ${renderCause(cause)}`, maxCharacters))
}

const keyOf = ({ rule, field, reason }: Cause): string => `${rule} ${field} ${finalReasons.includes(reason)}`
