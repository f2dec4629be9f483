import type { Domain } from '../../api/domain/domain.ts'
import { mostIothreads } from '../defaults/iothread.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const disk = (driver: NonNullable<DeviceOf<'disks'>['driver']>, more: Domain = {}): Domain => ({
  iothreads: 2,
  devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d' }, driver }] },
  ...more,
})

const scsi = (driver: NonNullable<DeviceOf<'controllers'>['driver']>): Domain => ({
  iothreads: 2,
  devices: { controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi', driver }] },
})

const ids = (...given: number[]): Domain => ({
  iothreads: given.length,
  iothreadids: { iothreads: given.map((id) => ({ id })) },
})

testRule('iothread-exists', [
  {
    refused: { iothreadids: { iothreads: [{}, {}] } },
    causes: [
      'spec.domain.iothreadids.iothreads[0].id: Required value: must be set',
      'spec.domain.iothreadids.iothreads[1].id: Required value: must be set',
    ],
    accepted: ids(1, 2),
  },
  {
    refused: { iothreads: 1, iothreadids: { iothreads: [{ threadPoolMin: 1 }] } },
    causes: ['spec.domain.iothreadids.iothreads[0].id: Required value: must be set'],
    accepted: { iothreads: 1, iothreadids: { iothreads: [{ id: 1, threadPoolMin: 1 }] } },
  },
  {
    refused: ids(0),
    causes: ['spec.domain.iothreadids.iothreads[0].id: Invalid value: 0: must be at least 1'],
    accepted: ids(1),
  },
  {
    refused: ids(1, 1),
    causes: ['spec.domain.iothreadids.iothreads[1].id: Duplicate value: 1: is listed more than once'],
    accepted: ids(1, 2),
  },
  {
    refused: { iothreads: mostIothreads + 1 },
    causes: ['spec.domain.iothreads: Too many: 257: must be at most 256'],
    accepted: { iothreads: mostIothreads },
  },
  {
    refused: disk({ iothread: 3 }),
    causes: ['spec.domain.devices.disks[0].driver.iothread: Not found: 3: no I/O thread has this id; iothreads is 2'],
    accepted: disk({ iothread: 2 }),
  },
  {
    refused: scsi({ iothread: 3 }),
    causes: [
      'spec.domain.devices.controllers[0].driver.iothread: Not found: 3: no I/O thread has this id; iothreads is 2',
    ],
    accepted: scsi({ iothread: 2 }),
  },
  {
    refused: disk({ iothreads: { iothreads: [{ id: 1 }, { id: 3 }] } }),
    causes: [
      'spec.domain.devices.disks[0].driver.iothreads.iothreads[1].id: Not found: 3: no I/O thread has this id; iothreads is 2',
    ],
    accepted: disk({ iothreads: { iothreads: [{ id: 1 }, { id: 2 }] } }),
  },
  {
    refused: disk({ iothread: 2 }, ids(1, 7)),
    causes: ['spec.domain.devices.disks[0].driver.iothread: Not found: 2: no I/O thread has this id; iothreads is 2'],
    accepted: disk({ iothread: 7 }, ids(1, 7)),
  },
])

/** A disk whose queues are assigned to these I/O threads. */
const mapped = (queues: number | undefined, ...threads: (readonly number[])[]): Domain =>
  disk({
    ...(queues === undefined ? {} : { queues }),
    iothreads: { iothreads: threads.map((one, index) => ({ id: index + 1, queues: one.map((id) => ({ id })) })) },
  })

testRule('iothread-mapping', [
  {
    refused: disk({ iothread: 1, iothreads: { iothreads: [{ id: 1 }] } }),
    causes: ['spec.domain.devices.disks[0].driver.iothread: Forbidden: must not be set together with iothreads'],
    accepted: disk({ iothreads: { iothreads: [{ id: 1 }] } }),
  },
  {
    refused: scsi({ iothread: 1, iothreads: { iothreads: [{ id: 1 }] } }),
    causes: ['spec.domain.devices.controllers[0].driver.iothread: Forbidden: must not be set together with iothreads'],
    accepted: scsi({ iothreads: { iothreads: [{ id: 1 }] } }),
  },
  {
    refused: mapped(undefined, [0], [1]),
    causes: [
      'spec.domain.devices.disks[0].driver.queues: Required value: must be set when queues are assigned to I/O threads',
    ],
    accepted: mapped(2, [0], [1]),
  },
  {
    refused: disk({ iothreads: { iothreads: [{ id: 1 }, { id: 1 }] } }),
    causes: [
      'spec.domain.devices.disks[0].driver.iothreads.iothreads[1].id: Duplicate value: 1: is listed more than once',
    ],
    accepted: disk({ iothreads: { iothreads: [{ id: 1 }, { id: 2 }] } }),
  },
  {
    refused: mapped(2, [0, 1], []),
    causes: [
      'spec.domain.devices.disks[0].driver.iothreads.iothreads[1].queues: Required value: must be set when other I/O threads have queues',
    ],
    accepted: mapped(2, [0], [1]),
  },
  {
    refused: mapped(2, [0, 1], [2]),
    causes: [
      'spec.domain.devices.disks[0].driver.iothreads.iothreads[1].queues[0].id: Invalid value: 2: must be less than 2, the number of queues',
    ],
    accepted: mapped(3, [0, 1], [2]),
  },
  {
    refused: mapped(2, [0, 1], [1]),
    causes: [
      'spec.domain.devices.disks[0].driver.iothreads.iothreads[1].queues[0].id: Duplicate value: 1: is already assigned to an I/O thread',
    ],
    accepted: mapped(2, [0], [1]),
  },
  {
    refused: mapped(3, [0], [1]),
    causes: [
      'spec.domain.devices.disks[0].driver.iothreads: Required value: must include queue 2: every queue needs an I/O thread',
    ],
    accepted: mapped(3, [0, 2], [1]),
  },
])

testRule('iothread-pool', [
  {
    refused: { defaultiothread: { threadPoolMax: 0 } },
    causes: ['spec.domain.defaultiothread.threadPoolMax: Invalid value: 0: must be at least 1'],
    accepted: { defaultiothread: { threadPoolMax: 1 } },
  },
  {
    refused: { defaultiothread: { threadPoolMin: 8, threadPoolMax: 4 } },
    causes: ['spec.domain.defaultiothread.threadPoolMax: Invalid value: 4: must be at least threadPoolMin, 8'],
    accepted: { defaultiothread: { threadPoolMin: 4, threadPoolMax: 4 } },
  },
  {
    refused: { iothreads: 1, iothreadids: { iothreads: [{ id: 1, threadPoolMin: 8, threadPoolMax: 4 }] } },
    causes: ['spec.domain.iothreadids.iothreads[0].threadPoolMax: Invalid value: 4: must be at least threadPoolMin, 8'],
    accepted: { iothreads: 1, iothreadids: { iothreads: [{ id: 1, threadPoolMin: 4, threadPoolMax: 8 }] } },
  },
])

testSilent('iothread-mapping', [
  {},
  disk({ iothreads: { iothreads: [{}, {}] } }),
  disk({ queues: 1, iothreads: { iothreads: [{ id: 1, queues: [{ id: 0 }, {}, {}] }] } }),
])
testSilent('iothread-pool', [{ defaultiothread: { threadPoolMin: 4 } }, { defaultiothread: { threadPoolMax: 4 } }])
testSilent('iothread-exists', [disk({ iothreads: { iothreads: [{}] } })])
