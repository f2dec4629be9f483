import { rule } from './rule.ts'

/** Features that are on if they are listed without a state. */
const toggles = ['pmu', 'vmport', 'smm', 'vmcoreinfo', 'ps2', 'pvspinlock'] as const

export const featureState = rule('feature-state', 'A listed feature is on.', ({ features }) => {
  if (!features) return undefined
  return { features: Object.fromEntries(toggles.filter((key) => features[key]).map((key) => [key, { state: true }])) }
})

export const asyncTeardown = rule(
  'async-teardown',
  'Asynchronous teardown is enabled if it is listed.',
  ({ features }) => features?.asyncTeardown && { features: { asyncTeardown: { enabled: true } } },
)

export const hypervMode = rule(
  'hyperv-mode',
  'The mode of Hyper-V enlightenments is `custom`: those that are listed.',
  ({ features }) => features?.hyperv && { features: { hyperv: { mode: 'custom' } } },
)
