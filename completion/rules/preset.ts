import type { Cause } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { renderCause, shorten } from '../../api/refusal.ts'
import type { Capabilities } from '../../api/capabilities.ts'
import { rules } from './rules.ts'

/**
 * Rules that look at nothing but what is in one place: what breaks them in a part of a VM breaks them in every VM that the part becomes a
 * part of. The others cannot be asked before there is a VM.
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

/** Something that is not there may still come from the VM, and so may what something may not stand beside. */
const final: readonly string[] = ['FieldValueInvalid', 'FieldValueNotSupported', 'FieldValueTooLong']

const maxCharacters = 119

/**
 * Why a VM that gets this part from a preset can never be valid, a line each.
 * @param nodes what nodes can do: a VM that one of them can run is valid there
 */
export function neverValid(domain: Domain, [first, ...others]: readonly Capabilities[]): readonly string[] {
  if (first === undefined) return []
  const elsewhere = others.map((one) => broken(domain, one))
  const isEverywhere = ({ rule, field }: Cause): boolean =>
    elsewhere.every((causes) => causes.some((one) => one.rule === rule && one.field === field))
  return broken(domain, first)
    .filter(isEverywhere)
    .map((cause) => shorten(`no VM with this can run: ${cause.field}: ${renderCause(cause)}`, maxCharacters))
}

function broken(domain: Domain, capabilities: Capabilities): readonly Cause[] {
  const subject = {
    capabilities,
    originOf: () => ({ by: 'user' }) as const,
    isGranted: () => true,
    spec: { domain },
    domain: canonicalSpelling(domain),
  }
  return rules
    .filter(({ id }) => local.has(id))
    .flatMap(({ id, check }) => [...check(subject)].map((finding) => ({ rule: id, ...finding })))
    .filter(({ reason }) => final.includes(reason))
}
