import { expect, test } from 'vitest'

import { countOrigins } from './showcase.ts'

const annotation = JSON.stringify({
  v: 1,
  by: [['default', 'serial-console', 'e49fc79aec1c0281'], '=clock'],
  at: { spec: { domain: { devices: { serials: { '0': { type: 0 } } }, clock: 1 } } },
})

test('counts fields by origin, the user first and the defaults last', () => {
  const vm = {
    metadata: { annotations: { 'virtset.io/completed-by': annotation } },
    spec: {
      domain: { clock: { offset: 'utc' }, type: 'qemu', name: 'a', devices: { serials: [{ type: 'pty' }] } },
    },
  }
  expect([...countOrigins(vm)]).toEqual([
    ['the user', 2],
    ['preset serial-console', 1],
    ["libvirt's defaults", 1],
  ])
})

test('without provenance every field is the user’s', () => {
  expect([...countOrigins({ metadata: {}, spec: { domain: { type: 'qemu' } } })]).toEqual([['the user', 1]])
})
