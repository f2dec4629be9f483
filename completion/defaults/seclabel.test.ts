import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { seclabelModel, seclabelRelabel, sourceRelabel } from './seclabel.ts'

test.each<[string, Domain, Domain]>([
  [
    'a label without a module is for none',
    { seclabels: [{ type: 'dynamic' }] },
    { seclabels: [{ type: 'dynamic', model: 'none' }] },
  ],
  [
    'a module that makes the label labels resources',
    { seclabels: [{ type: 'dynamic', model: 'selinux' }] },
    { seclabels: [{ type: 'dynamic', model: 'selinux', relabel: true }] },
  ],
  [
    'with a given label it does not',
    { seclabels: [{ type: 'static', model: 'dac' }] },
    { seclabels: [{ type: 'static', model: 'dac', relabel: false }] },
  ],
  [
    'an image with a label is labelled, and the image below it',
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
