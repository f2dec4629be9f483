import { list } from './device.ts'
import { duplicate, invalid } from './finding.ts'
import { example, type Rule } from './rule.ts'

const panicAddress: { readonly [model: string]: string } = { isa: 'isa', pvpanic: 'pci' }

export const panics: Rule = {
  id: 'panics',
  description: 'At most one panic device per model is supported; its address must be on the bus of the model.',
  about: ['panics'],
  *check({ domain }) {
    const seen = new Set<string>()
    for (const [index, { model = 'isa', address }] of list(domain, 'panics').entries()) {
      const at = `spec.domain.devices.panics[${index}]`
      if (seen.has(model)) yield duplicate(`${at}.model`, model, 'only one panic device of each model is supported')
      seen.add(model)
      if (address?.type !== undefined && address.type !== panicAddress[model]) {
        yield invalid(`${at}.address.type`, address.type, `is not supported for model ${model}`)
      }
    }
  },
  example: example(
    { devices: { panics: [{ model: 'isa' }, { model: 'isa' }] } },
    { devices: { panics: [{ model: 'isa' }, { model: 'hyperv' }] } },
  ),
}
