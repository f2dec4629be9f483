import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { applied } from '../../test/applied.ts'
import { spaprAddress } from './spapr-vio.ts'

test.each<[string, Domain, Domain]>([
  [
    'cards and controllers start at their own addresses',
    {
      devices: {
        interfaces: [{ model: { type: 'spapr-vlan' } }, {}],
        controllers: [
          { type: 'scsi', model: 'ibmvscsi' },
          { type: 'scsi', model: 'ibmvscsi' },
        ],
      },
    },
    {
      devices: {
        interfaces: [{ model: { type: 'spapr-vlan' }, address: { type: 'spapr-vio', reg: 0x1000 } }, {}],
        controllers: [
          { type: 'scsi', model: 'ibmvscsi', address: { type: 'spapr-vio', reg: 0x2000 } },
          { type: 'scsi', model: 'ibmvscsi', address: { type: 'spapr-vio', reg: 0x3000 } },
        ],
      },
    },
  ],
  [
    'an address in use is skipped',
    {
      devices: {
        controllers: [
          { type: 'scsi', model: 'ibmvscsi' },
          { type: 'scsi', model: 'ibmvscsi', address: { type: 'spapr-vio', reg: '0x2000' } },
        ],
      },
    },
    {
      devices: {
        controllers: [
          { type: 'scsi', model: 'ibmvscsi', address: { type: 'spapr-vio', reg: 0x3000 } },
          { type: 'scsi', model: 'ibmvscsi', address: { type: 'spapr-vio', reg: '0x2000' } },
        ],
      },
    },
  ],
])('%s', (_, domain, expected) => {
  expect(applied([spaprAddress], domain)).toEqual({ ...domain, ...expected })
})
