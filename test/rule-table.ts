import { expect, test } from 'vitest'
import type { Cause, Origin } from '../api/cause.ts'
import type { Capabilities } from '../api/capabilities.ts'
import { canonicalSpelling } from '../api/domain/canonical.ts'
import type { Domain } from '../api/domain/domain.ts'
import { validateDomain } from '../api/domain/validate.ts'
import { probeNames } from '../api/probe.ts'
import { renderCause } from '../api/refusal.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { imageVolumesOf } from '../api/volume.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { addedPaths } from '../completion/defaults/apply.ts'
import { fillDefaults } from '../completion/defaults/defaults.ts'
import type { Finding, RuleContext } from '../completion/rules/rule.ts'
import { checkRules, rules } from '../completion/rules/rules.ts'
import { warnings } from '../completion/rules/warnings.ts'
import { pick } from '../runtime/slim.ts'

const besideDomain = [
  'volumes',
  'ports',
  'taps',
  'deviceStateVolume',
  'attachedVolumes',
  'dedicatedCPUs',
  'memoryRequest',
  'hostDevices',
  'resourceClaims',
  ...probeNames,
] as const

interface Surrounding extends Pick<VirtualMachineSpec, (typeof besideDomain)[number]> {
  /** Completes the domains of the row; by default a VM with KVM, 1 GiB and `hvm`. */
  readonly base?: Domain
  /** The node's capabilities; by default `bundledCapabilities`. */
  readonly capabilities?: Capabilities
}

/** One branch of a rule. */
interface RuleRow extends Surrounding {
  readonly refused: Domain
  /** All causes of the rule, as kubectl prints them: `FIELD: REASON: VALUE: MESSAGE; SUGGESTION`. */
  readonly causes: readonly string[]
  /** The smallest change of `refused` that no rule refuses. */
  readonly accepted: Domain
}

/** One branch of a warning. */
interface WarningRow extends Surrounding {
  readonly warned: Domain
  readonly lines: readonly string[]
  /** The smallest change of `warned` without the warning. */
  readonly silent: Domain
}

export const minimal = { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } } } as const

/** A MAC address that another VM has. */
export const takenMac = '52:54:00:00:00:0a'

/**
 * A spec with libvirt's defaults, and the context in which rules check it. Every field that reaches the host is
 * granted.
 */
export function prepare(domain: Domain, row: Surrounding = {}): [VirtualMachineSpec, RuleContext] {
  const { base = minimal, volumes, capabilities = bundledCapabilities } = row
  const imageVolumes = imageVolumesOf(volumes)
  const context = { capabilities, entropy: { uid: 'test' }, name: 'test', imageVolumes }
  const completed = fillDefaults({ ...base, ...domain }, context)
  const paths = addedPaths(completed.added, completed.domain)
  const originOf = (path: string): Origin => {
    const rule = paths.get(path.replace(/^spec\.domain\./, ''))
    return rule === undefined ? { by: 'user' } : { by: 'default', rule }
  }
  return [
    {
      domain: completed.domain,
      ...pick(row, ...besideDomain),
    },
    { capabilities, originOf, isInPod: true, isGranted: () => true, isMacTaken: (address) => address === takenMac },
  ]
}

const causesOf = (domain: Domain, row: Surrounding): readonly Cause[] => checkRules(...prepare(domain, row)).causes

const shown = (cause: Cause): string => {
  const node = cause.missingCapability === undefined ? '' : ` [node without ${cause.missingCapability}]`
  return `${cause.field}: ${renderCause(cause)}${node}`
}

/** The findings of one rule, which runs even if the domain has none of the keys in its `about`. */
const findingsOf = (id: string, domain: Domain, row: Surrounding): readonly Finding[] => {
  const [spec, context] = prepare(domain, row)
  const subject = { ...context, spec, domain: canonicalSpelling(spec.domain) }
  return rules.filter((rule) => rule.id === id).flatMap(({ check }) => [...check(subject)])
}

/** Declares one test for each row, which runs all rules but compares the causes of one. */
export const testRule = (id: string, rows: readonly RuleRow[]): void =>
  test.each(rows.map((row) => [id, row.causes[0], row] as const))('%s: %s', (_, __, row) => {
    const { refused, causes, accepted, base = minimal } = row
    const given = causesOf(refused, row).filter(({ rule }) => rule === id)
    expect(validateDomain({ ...base, ...refused })).toEqual([])
    expect(given.map(shown)).toEqual(causes)
    expect(validateDomain({ ...base, ...accepted })).toEqual([])
    expect(causesOf(accepted, row).map(shown)).toEqual([])
  })

/** Declares that a rule has no cause in these VMs, whether other rules refuse them or not. */
export const testSilent = (id: string, domains: readonly Domain[], row: Surrounding = {}): void => {
  test.each(domains.map((domain) => [id, JSON.stringify(domain), domain] as const))(
    '%s: silent about %s',
    (_, __, domain) => {
      expect(validateDomain({ ...(row.base ?? minimal), ...domain })).toEqual([])
      expect(findingsOf(id, domain, row)).toEqual([])
    },
  )
}

const linesOf = (id: string, domain: Domain, row: Surrounding): readonly string[] => {
  const [spec, context] = prepare(domain, row)
  const subject = { ...context, spec, domain: canonicalSpelling(spec.domain) }
  return warnings.filter((warning) => warning.id === id).flatMap(({ check }) => [...check(subject)])
}

/** Declares one test for each row; no rule may refuse its domains. */
export const testWarning = (id: string, rows: readonly WarningRow[]): void =>
  test.each(rows.map((row) => [id, row.lines[0], row] as const))('%s: %s', (_, __, row) => {
    const { warned, lines, silent, base = minimal } = row
    expect(linesOf(id, warned, row)).toEqual(lines)
    expect(linesOf(id, silent, row)).toEqual([])
    for (const domain of [warned, silent]) {
      expect(validateDomain({ ...base, ...domain })).toEqual([])
      expect(causesOf(domain, row).map(shown)).toEqual([])
    }
  })
