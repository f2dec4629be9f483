import { testRule, testSilent } from '../../test/rule-table.ts'

testRule('keywrap-ciphers', [
  {
    refused: {
      keywrap: {
        ciphers: [
          { name: 'dea', state: true },
          { name: 'aes', state: true },
          { name: 'aes', state: false },
        ],
      },
    },
    causes: ['spec.domain.keywrap.ciphers[2].name: Duplicate value: "aes": is already in ciphers[1]'],
    accepted: {
      keywrap: {
        ciphers: [
          { name: 'dea', state: true },
          { name: 'aes', state: true },
        ],
      },
    },
  },
])

testSilent('keywrap-ciphers', [{}, { keywrap: {} }, { keywrap: { ciphers: [{ state: true }, { state: true }] } }])
