import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { seclabelModel, seclabelRelabel, sourceRelabel } from './seclabel.ts'

test.each<[string, Domain, Domain]>([
  [
    'the module of a label without one is none',
    { seclabels: [{ type: 'dynamic' }] },
    { seclabels: [{ type: 'dynamic', model: 'none' }] },
  ],
  [
    'a dynamic label relabels resources',
    { seclabels: [{ type: 'dynamic', model: 'selinux' }] },
    { seclabels: [{ type: 'dynamic', model: 'selinux', relabel: true }] },
  ],
  [
    'a static label does not',
    { seclabels: [{ type: 'static', model: 'dac' }] },
    { seclabels: [{ type: 'static', model: 'dac', relabel: false }] },
  ],
  [
    'an image with a label is relabelled, and so is its backing store',
    {
      devices: {
        disks: [
          {
            source: { file: '/a', seclabels: [{ label: 'x' }] },
            backingStore: { source: { file: '/b', seclabels: [{ label: 'y' }] } },
          },
        ],
      },
    },
    {
      devices: {
        disks: [
          {
            source: { file: '/a', seclabels: [{ label: 'x', relabel: true }] },
            backingStore: { source: { file: '/b', seclabels: [{ label: 'y', relabel: true }] } },
          },
        ],
      },
    },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([seclabelModel, seclabelRelabel, sourceRelabel], domain)).toEqual({ ...domain, ...expected })
})
