import { expect, test } from 'vitest'
import { checkResourceClaims, type ResourceClaim } from './resource-claim.ts'

test.each<[string, ResourceClaim, string[]]>([
  ['of a claim', { name: 'gpu', resourceClaimName: 'my.gpu' }, []],
  ['of a template', { name: 'gpu', resourceClaimTemplateName: 'gpu' }, []],
  ['of neither', { name: 'gpu' }, ['resource-claim-kind c[0]']],
  [
    'of both',
    { name: 'gpu', resourceClaimName: 'a', resourceClaimTemplateName: 'b' },
    ['resource-claim-kind c[0].resourceClaimTemplateName'],
  ],
  ['with a name of no file', { name: '..', resourceClaimName: 'a' }, ['resource-claim-name c[0].name']],
  [
    'with a source of no name',
    { name: 'a', resourceClaimName: '../a' },
    ['resource-claim-source c[0].resourceClaimName'],
  ],
])('a claim %s is checked', (_, claim, expected) => {
  expect(checkResourceClaims([claim], 'c').map(({ rule, field }) => `${rule} ${field}`)).toEqual(expected)
})
