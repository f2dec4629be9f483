import { expect, test } from 'vitest'
import { prepare, testRule } from '../../test/rule-table.ts'
import { checkRules } from './rules.ts'

const memoryRequest = '512Mi'
const mebibytes = (value: number) => ({ memory: { unit: 'MiB', value } })
const hugepages = { pages: [{ size: 2, unit: 'MiB' }] }
const given = (message: string) => `spec.memoryRequest: Invalid value: "512Mi": ${message}`

testRule('memory-request', [
  {
    memoryRequest,
    refused: mebibytes(512),
    causes: [given('must be less than the memory of the guest, 536870912 bytes')],
    accepted: mebibytes(513),
  },
  {
    memoryRequest,
    refused: { ...mebibytes(1024), memoryBacking: { hugepages } },
    causes: [given('must be less than the memory of the guest that is not in huge pages, 0 bytes')],
    accepted: mebibytes(1024),
  },
  {
    memoryRequest,
    refused: { ...mebibytes(1024), memoryBacking: { locked: {} } },
    causes: [
      'spec.memoryRequest: Forbidden: must not be set with memoryBacking.locked, which allocates all memory at once',
    ],
    accepted: { ...mebibytes(1024), memoryBacking: {} },
  },
])

test.each<[string, Parameters<typeof prepare>[1], string]>([
  ['nothing', { memoryRequest: '0' }, 'must be more than 0'],
  ['less than nothing', { memoryRequest: '-1Gi' }, 'must be more than 0'],
  ['less than a Guaranteed pod', { memoryRequest, dedicatedCPUs: true }, 'must not be set with spec.dedicatedCPUs'],
])('a VM cannot request %s', (_, row, message) => {
  const { causes } = checkRules(...prepare({}, row))
  expect(causes).toMatchObject([{ rule: 'memory-request', message: expect.stringContaining(message) }])
})
