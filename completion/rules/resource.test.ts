import { testRule, testSilent } from '../../test/rule-table.ts'

const refusal = (value: string) => [
  `spec.domain.resource.partition: Invalid value: "${value}": must be an absolute path below /; e.g. /machine`,
]

testRule('resource-partition', [
  {
    refused: { resource: { partition: 'machine' } },
    causes: refusal('machine'),
    accepted: { resource: { partition: '/machine' } },
  },
  { refused: { resource: { partition: '/' } }, causes: refusal('/'), accepted: { resource: { partition: '/m' } } },
])

testSilent('resource-partition', [{}, { resource: { fibrechannel: { appid: 'user:app' } } }])
