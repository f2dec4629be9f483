import { expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
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

test.each<[string, Domain]>([
  ['memoryBacking.allocation.mode immediate', { memoryBacking: { allocation: { mode: 'immediate' } } }],
  ['devices.hostdevs[0]', { devices: { hostdevs: [{ type: 'pci', alias: { name: 'ua-gpu' } }] } }],
  ['devices.interfaces[0]', { devices: { interfaces: [{ type: 'vdpa', source: { dev: '/dev/vhost-vdpa-0' } }] } }],
  ['devices.disks[0]', { devices: { disks: [{ type: 'vhostvdpa', target: { dev: 'vda' } }] } }],
])('a VM cannot request less than all of its memory with %s, for which the node must have it at once', (what, more) => {
  const { causes } = checkRules(...prepare({ ...mebibytes(1024), ...more }, { memoryRequest }))
  const ofRule = causes.filter(({ rule }) => rule === 'memory-request')
  expect(ofRule).toMatchObject([{ message: expect.stringContaining(what) }])
})

test('a USB device does not pin the memory of the guest', () => {
  const devices: Domain['devices'] = { hostdevs: [{ type: 'usb', alias: { name: 'ua-key' } }] }
  const hostDevices = [{ name: 'key', resourceName: 'example.com/key' }]
  const { causes } = checkRules(...prepare({ ...mebibytes(1024), devices }, { memoryRequest, hostDevices }))
  expect(causes.filter(({ rule }) => rule === 'memory-request')).toEqual([])
})

test.each<[string, Parameters<typeof prepare>[1], string]>([
  ['nothing', { memoryRequest: '0' }, 'must be more than 0'],
  ['less than nothing', { memoryRequest: '-1Gi' }, 'must be more than 0'],
  ['less than a Guaranteed pod', { memoryRequest, dedicatedCPUs: true }, 'must not be set with spec.dedicatedCPUs'],
])('a VM cannot request %s', (_, row, message) => {
  const { causes } = checkRules(...prepare({}, row))
  expect(causes).toMatchObject([{ rule: 'memory-request', message: expect.stringContaining(message) }])
})
