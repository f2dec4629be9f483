import { expect, test } from 'vitest'
import { placeOf, textHref, vmHref } from './place.ts'

test.each([
  ['', { view: 'list', plural: 'virtualmachines' }],
  ['#/nothing', { view: 'list', plural: 'virtualmachines' }],
  ['#/virtualmachineconfigs', { view: 'list', plural: 'virtualmachineconfigs' }],
  ['#/vm/%/%E0', { view: 'vm', namespace: '%', name: '%E0' }],
  [vmHref('a', 'b.c'), { view: 'vm', namespace: 'a', name: 'b.c' }],
  [
    textHref('virtualmachinepresets', 'a', 'small'),
    { view: 'text', plural: 'virtualmachinepresets', namespace: 'a', name: 'small' },
  ],
  [
    textHref('clustervirtualmachinepresets', '', 'all'),
    { view: 'text', plural: 'clustervirtualmachinepresets', namespace: '', name: 'all' },
  ],
  [
    textHref('clustervirtualmachinepresets', '', ''),
    { view: 'text', plural: 'clustervirtualmachinepresets', namespace: '', name: '' },
  ],
  [textHref('virtualmachines', 'a', ''), { view: 'text', plural: 'virtualmachines', namespace: 'a', name: '' }],
])('%s', (hash, expected) => {
  expect(placeOf(hash)).toEqual(expected)
})
