import { expect, test } from 'vitest'
import { apiVersion } from '../api/object.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { changesBetween } from './change.ts'

const vm = (domain: object, metadata: object = {}): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name: 'a', ...metadata },
  spec: { domain },
})

test.each<[string, VirtualMachine, VirtualMachine, readonly object[]]>([
  ['nothing', vm({ title: 'x', devices: {} }), vm({ title: 'x', devices: {} }), []],
  ['a value', vm({ title: 'x' }), vm({ title: 'y' }), [{ path: 'spec.domain.title', before: 'x', after: 'y' }]],
  [
    'removed leaves, then added ones',
    vm({ clock: { offset: 'utc' }, title: 'x' }),
    vm({ devices: { serials: [{ type: 'pty' }, {}] }, title: 'x' }),
    [
      { path: 'spec.domain.clock.offset', before: 'utc' },
      { path: 'spec.domain.devices.serials[0].type', after: 'pty' },
      { path: 'spec.domain.devices.serials[1]', after: {} },
    ],
  ],
  [
    'something in the place of nothing',
    vm({ features: {} }),
    vm({ features: { acpi: {} } }),
    [
      { path: 'spec.domain.features', before: {} },
      { path: 'spec.domain.features.acpi', after: {} },
    ],
  ],
  [
    'an item of a list',
    vm({ devices: { serials: [{ type: 'pty' }] } }),
    vm({ devices: { serials: [{ type: 'null' }] } }),
    [{ path: 'spec.domain.devices.serials[0].type', before: 'pty', after: 'null' }],
  ],
  [
    "labels and annotations, but for virtset's own",
    vm({}),
    vm({}, { labels: { 'a/b': 'c' }, annotations: { 'virtset.io/completed-by': '{}', d: 'e' } }),
    [
      { path: 'metadata.labels[a/b]', after: 'c' },
      { path: 'metadata.annotations.d', after: 'e' },
    ],
  ],
])('%s', (_, before, after, changes) => {
  expect(changesBetween(before, after)).toEqual(changes)
})
