import { rule } from './rule.ts'

/** Features that are on where they are named without a state. */
const toggles = ['pmu', 'vmport', 'smm', 'vmcoreinfo', 'ps2', 'pvspinlock'] as const

export const featureState = rule('feature-state', 'A feature that is named is on.', ({ features }) => {
  if (!features) return undefined
  return { features: Object.fromEntries(toggles.filter((key) => features[key]).map((key) => [key, { state: true }])) }
})

export const asyncTeardown = rule(
  'async-teardown',
  'Memory that is named to be given back after QEMU has ended is.',
  ({ features }) => features?.asyncTeardown && { features: { asyncTeardown: { enabled: true } } },
)

export const hypervMode = rule(
  'hyperv-mode',
  'The interfaces of Hyper-V are those that are listed.',
  ({ features }) => features?.hyperv && { features: { hyperv: { mode: 'custom' } } },
)
