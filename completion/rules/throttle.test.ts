import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Tune = NonNullable<DeviceOf<'disks'>['iotune']>

const disks = (...tunes: Tune[]): Domain => ({
  devices: {
    disks: tunes.map((iotune, index) => ({
      source: { file: `/d${index}` },
      target: { dev: `vd${'abc'.charAt(index)}` },
      iotune,
    })),
  },
})

const highest = 1_000_000_000_000_000

const groups = (...limits: NonNullable<NonNullable<Domain['throttlegroups']>['throttlegroups']>): Domain => ({
  throttlegroups: { throttlegroups: limits },
})

testRule('disk-limits', [
  {
    refused: disks({ totalBytesSec: 1000, readBytesSec: 500 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.readBytesSec: Forbidden: must not be set together with totalBytesSec, which limits both directions',
    ],
    accepted: disks({ totalBytesSec: 0, readBytesSec: 500 }),
  },
  {
    refused: disks({ totalBytesSec: 1000, writeBytesSec: 500 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.writeBytesSec: Forbidden: must not be set together with totalBytesSec, which limits both directions',
    ],
    accepted: disks({ totalBytesSec: 1000, writeBytesSec: 0 }),
  },
  {
    refused: disks({ totalIopsSec: 10, writeIopsSec: 5 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.writeIopsSec: Forbidden: must not be set together with totalIopsSec, which limits both directions',
    ],
    accepted: disks({ readIopsSec: 10, writeIopsSec: 5 }),
  },
  {
    refused: disks({ totalBytesSec: 10, totalBytesSecMax: 20, readBytesSecMax: 5 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.readBytesSecMax: Forbidden: must not be set together with totalBytesSecMax, which limits both directions',
    ],
    accepted: disks({ totalBytesSec: 10, totalBytesSecMax: 20 }),
  },
  {
    refused: disks({ totalIopsSec: 10, totalIopsSecMax: 20, readIopsSecMax: 5 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.readIopsSecMax: Forbidden: must not be set together with totalIopsSecMax, which limits both directions',
    ],
    accepted: disks({ totalIopsSec: 10, totalIopsSecMax: 20 }),
  },
  {
    refused: groups({ groupName: 'a', totalBytesSec: 10, readBytesSec: 5 }),
    causes: [
      'spec.domain.throttlegroups.throttlegroups[0].readBytesSec: Forbidden: must not be set together with totalBytesSec, which limits both directions',
    ],
    accepted: groups({ groupName: 'a', totalBytesSec: 10 }),
  },
  {
    refused: disks({ readBytesSec: highest + 1 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.readBytesSec: Invalid value: 1000000000000001: must be at most 1000000000000000, the highest limit of QEMU',
    ],
    accepted: disks({ readBytesSec: highest }),
  },
  {
    refused: disks({ totalIopsSec: 10, sizeIopsSec: highest + 1 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.sizeIopsSec: Invalid value: 1000000000000001: must be at most 1000000000000000, the highest limit of QEMU',
    ],
    accepted: disks({ totalIopsSec: 10, sizeIopsSec: 4096 }),
  },
])

testRule('disk-limits-shared', [
  {
    refused: disks(
      { groupName: 'slow', totalBytesSec: 1 },
      { groupName: 'slow' },
      { groupName: 'slow', totalBytesSec: 2 },
    ),
    causes: [
      'spec.domain.devices.disks[2].iotune.groupName: Invalid value: "slow": must have the same limits as spec.domain.devices.disks[0].iotune',
    ],
    accepted: disks({ groupName: 'slow', totalBytesSec: 1 }, { groupName: 'slow' }),
  },
  {
    refused: disks({ groupName: 'slow' }),
    causes: [
      'spec.domain.devices.disks[0].iotune.totalBytesSec: Required value: must be set together with groupName, or another limit',
    ],
    accepted: disks({ groupName: 'slow', totalBytesSec: 1 }),
  },
  {
    refused: disks({ groupName: 'slow', totalBytesSec: 0 }),
    causes: [
      'spec.domain.devices.disks[0].iotune.totalBytesSec: Required value: must be set together with groupName, or another limit',
    ],
    accepted: disks({ groupName: 'slow', totalBytesSec: 1 }, { groupName: 'slow' }),
  },
  {
    refused: disks({ groupName: 'slow', totalBytesSec: 1 }, { groupName: 'slow', totalBytesSec: 2 }),
    causes: [
      'spec.domain.devices.disks[1].iotune.groupName: Invalid value: "slow": must have the same limits as spec.domain.devices.disks[0].iotune',
    ],
    accepted: disks({ groupName: 'slow', totalBytesSec: 1 }, { groupName: 'fast', totalBytesSec: 2 }),
  },
  {
    refused: disks({ groupName: 'slow', totalBytesSec: 1 }, { groupName: 'slow', readBytesSec: 1 }),
    causes: [
      'spec.domain.devices.disks[1].iotune.groupName: Invalid value: "slow": must have the same limits as spec.domain.devices.disks[0].iotune',
    ],
    accepted: disks(
      { groupName: 'slow', totalBytesSec: 1, totalIopsSec: 2 },
      { totalIopsSec: 2, totalBytesSec: 1, groupName: 'slow' },
    ),
  },
])

/** A disk in these throttle groups, and the groups `a` and `b`. */
const filtered = (more: DeviceOf<'disks'>, ...names: string[]): Domain => ({
  ...groups({ groupName: 'a', totalBytesSec: 1000 }, { groupName: 'b', totalBytesSec: 2000 }),
  devices: {
    disks: [
      {
        source: { file: '/d' },
        target: { dev: 'vda', bus: 'virtio' },
        throttlefilters: { throttlefilters: names.map((group) => ({ group })) },
        ...more,
      },
    ],
  },
})

const limits = { totalBytesSec: 1000 }
const cdrom = { device: 'cdrom', target: { dev: 'sda', bus: 'sata' } } as const

testRule('disk-throttle-filters', [
  {
    refused: groups({ groupName: 'a', ...limits }, { groupName: 'a', ...limits }),
    causes: [
      'spec.domain.throttlegroups.throttlegroups[1].groupName: Duplicate value: "a": is already the name of another group',
    ],
    accepted: groups({ groupName: 'a', ...limits }, { groupName: 'b', ...limits }),
  },
  {
    refused: filtered({ iotune: limits }, 'a'),
    causes: ['spec.domain.devices.disks[0].iotune: Forbidden: must not be set together with throttlefilters'],
    accepted: filtered({ iotune: limits }),
  },
  {
    refused: filtered(cdrom, 'a'),
    causes: ['spec.domain.devices.disks[0].throttlefilters: Forbidden: must not be set for device cdrom'],
    accepted: filtered(cdrom),
  },
  {
    refused: filtered({}, 'c'),
    causes: [
      'spec.domain.devices.disks[0].throttlefilters.throttlefilters[0].group: Not found: "c": no item of throttlegroups has this name',
    ],
    accepted: filtered({}, 'b'),
  },
  {
    refused: filtered({}, 'a', 'a'),
    causes: [
      'spec.domain.devices.disks[0].throttlefilters.throttlefilters[1].group: Duplicate value: "a": is listed more than once',
    ],
    accepted: filtered({}, 'a', 'b'),
  },
])

testSilent('disk-limits-shared', [
  { devices: { disks: [{ target: { dev: 'vda' } }] } },
  disks(limits, { totalBytesSec: 1 }),
])
testSilent('disk-throttle-filters', [groups({ totalBytesSec: 1 }, { totalBytesSec: 1 })])
