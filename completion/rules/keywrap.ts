import { duplicate } from './finding.ts'
import { example, type Rule } from './rule.ts'

const wrapping = (...names: readonly ('aes' | 'dea')[]) => ({
  keywrap: { ciphers: names.map((name) => ({ name, state: true })) },
})

export const keywrapCiphers: Rule = {
  id: 'keywrap-ciphers',
  description: 'Each kind of protected key must be listed once.',
  about: ['keywrap'],
  *check({ domain: { keywrap } }) {
    const ciphers = keywrap?.ciphers ?? []
    for (const [index, { name }] of ciphers.entries()) {
      const first = ciphers.findIndex((cipher) => cipher.name === name)
      if (name !== undefined && first < index)
        yield duplicate(`spec.domain.keywrap.ciphers[${index}].name`, name, `is already in ciphers[${first}]`)
    }
  },
  example: example(wrapping('aes', 'aes'), wrapping('aes', 'dea')),
}
