import { fill, type Addition, type Rule } from './rule.ts'

export const seclabelModel: Rule = {
  name: 'seclabel-model',
  description: 'A label without a security module is for none.',
  apply: ({ seclabels }) =>
    (seclabels ?? []).map((label, index): Addition => fill(`seclabels[${index}]`, label, { model: 'none' })),
}
