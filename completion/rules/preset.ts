import type { Cause } from '../../api/cause.ts'
import { canonicalSpelling } from '../../api/domain/canonical.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { renderCause } from '../../api/refusal.ts'
import { shorten } from '../../api/shorten.ts'
import type { Capabilities } from '../../api/capabilities.ts'
import { rules } from './rules.ts'

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
const final: readonly string[] = ['FieldValueInvalid', 'FieldValueNotSupported', 'FieldValueTooLong']

const maxCharacters = 119

/**
 * Why a VM that gets this part from a preset can never be valid, one line each.
 * @param nodes the capabilities of the nodes: a cause counts only if it applies on every node
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
