import { list } from './device.ts'
import { duplicate, invalid } from './finding.ts'
import { example, type Rule } from './rule.ts'

const panicAddress: { readonly [model: string]: string } = { isa: 'isa', pvpanic: 'pci' }

export const panics: Rule = {
  id: 'panics',
  description: 'There is one panic device of each model, on the bus of its model.',
  about: ['panics'],
  *check({ domain }) {
    const seen = new Set<string>()
    for (const [index, { model, address }] of list(domain, 'panics').entries()) {
      const at = `spec.domain.devices.panics[${index}]`
      if (model === undefined) continue
      if (seen.has(model)) yield duplicate(`${at}.model`, model, 'is there twice')
      seen.add(model)
      if (address?.type !== undefined && address.type !== panicAddress[model]) {
        yield invalid(`${at}.address.type`, address.type, `is not possible for model ${model}`)
      }
    }
  },
  example: example(
    { devices: { panics: [{ model: 'isa' }, { model: 'isa' }] } },
    { devices: { panics: [{ model: 'isa' }, { model: 'hyperv' }] } },
  ),
}
