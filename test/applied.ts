import { deepFreeze } from '../api/deep-freeze.ts'
import type { Domain } from '../api/domain/domain.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { applyRules } from '../completion/defaults/apply.ts'
import type { Context, Rule } from '../completion/defaults/rule.ts'

export const testContext: Context = { capabilities: bundledCapabilities, entropy: { uid: 'test' }, isNew: true }

/**
 * The domain after these rules, with the bundled profile. The input is frozen, so that a rule that changes it throws.
 */
export const applied = (rules: readonly Rule[], domain: Domain, more: Partial<Context> = {}): Domain =>
  applyRules(rules, deepFreeze(domain), { ...testContext, ...more }).domain

export const q35 = { type: { os: 'hvm', arch: 'x86_64', machine: 'pc-q35-10.0' } } as const
export const i440fx = { type: { os: 'hvm', arch: 'x86_64', machine: 'pc-i440fx-10.0' } } as const
