import { expect, test } from 'vitest'
import { placeOf, presetHref, vmHref } from './place.ts'

test.each([
  ['', { view: 'list', plural: 'virtualmachines' }],
  ['#/nothing', { view: 'list', plural: 'virtualmachines' }],
  ['#/virtualmachineconfigs', { view: 'list', plural: 'virtualmachineconfigs' }],
  ['#/vm/%/%E0', { view: 'vm', namespace: '%', name: '%E0' }],
  [vmHref('a', 'b.c'), { view: 'vm', namespace: 'a', name: 'b.c' }],
  [
    presetHref('virtualmachinepresets', 'a', 'small'),
    { view: 'preset', plural: 'virtualmachinepresets', namespace: 'a', name: 'small' },
  ],
  [
    presetHref('clustervirtualmachinepresets', '', 'all'),
    { view: 'preset', plural: 'clustervirtualmachinepresets', namespace: '', name: 'all' },
  ],
  [
    presetHref('clustervirtualmachinepresets', '', ''),
    { view: 'preset', plural: 'clustervirtualmachinepresets', namespace: '', name: '' },
  ],
])('%s', (hash, expected) => {
  expect(placeOf(hash)).toEqual(expected)
})
