import { testRule } from '../../test/rule-table.ts'

testRule('lease', [
  {
    refused: { devices: { leases: [{ lockspace: 'a', key: 'b', target: { offset: 512 } }] } },
    causes: ['spec.domain.devices.leases[0].target.path: Required value: must be set'],
    accepted: { devices: { leases: [{ lockspace: 'a', key: 'b', target: { path: '/lease' } }] } },
  },
])
