import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
import { bundledCapabilities } from '../capabilities.ts'
import type { DeviceOf } from './device.ts'

type Controller = DeviceOf<'controllers'>

const controllers = (...controllers: Controller[]): Domain => ({ devices: { controllers } })

const machine = (machine: string): Domain => ({ os: { type: { os: 'hvm', machine } } })

testRule('controller-index', [
  {
    refused: controllers({ type: 'scsi', index: 256 }),
    causes: ['spec.domain.devices.controllers[0].index: Invalid value: 256: must be between 0 and 255'],
    accepted: controllers({ type: 'scsi', index: 1 }),
  },
  {
    refused: controllers({ type: 'virtio-serial', index: 256 }),
    causes: ['spec.domain.devices.controllers[0].index: Invalid value: 256: must be between 0 and 255'],
    accepted: controllers({ type: 'virtio-serial', index: 255 }),
  },
])

testRule('controller-unique', [
  {
    refused: controllers({ type: 'scsi', index: 1 }, { type: 'scsi', index: 1 }),
    causes: [
      'spec.domain.devices.controllers[1].index: Duplicate value: 1: is already the index of a scsi controller: spec.domain.devices.controllers[0].index',
    ],
    accepted: controllers({ type: 'scsi', index: 1 }, { type: 'sata', index: 1 }, { type: 'scsi', index: 0 }),
  },
  {
    refused: controllers({ type: 'scsi', index: 0 }, { type: 'scsi', index: 0 }, { type: 'scsi', index: 0 }),
    causes: [
      'spec.domain.devices.controllers[1].index: Duplicate value: 0: is already the index of a scsi controller: spec.domain.devices.controllers[0].index',
      'spec.domain.devices.controllers[2].index: Duplicate value: 0: is already the index of a scsi controller: spec.domain.devices.controllers[0].index',
    ],
    accepted: controllers({ type: 'scsi' }, { type: 'scsi' }),
  },
  {
    refused: controllers({ type: 'sata', index: 0 }, { type: 'sata', index: 0 }),
    causes: [
      'spec.domain.devices.controllers[1].index: Duplicate value: 0: is already the index of a sata controller: spec.domain.devices.controllers[0].index',
    ],
    accepted: controllers(
      { type: 'usb', index: 0, model: 'ich9-ehci1' },
      { type: 'usb', index: 0, model: 'ich9-uhci1', master: { startport: 0 } },
    ),
  },
])

testRule('controller-model', [
  {
    refused: controllers({ type: 'isa', index: 0 }),
    causes: ['spec.domain.devices.controllers[0].type: Unsupported value: "isa": is not supported on x86'],
    accepted: controllers({ type: 'scsi', index: 0, model: 'virtio-scsi' }),
  },
  {
    refused: controllers({ type: 'sata', index: 0, model: 'virtio-scsi' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Unsupported value: "virtio-scsi": must not be set: a sata controller has no model',
    ],
    accepted: controllers({ type: 'sata', index: 0 }),
  },
  {
    refused: controllers({ type: 'scsi', index: 0, model: 'piix3-uhci' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Unsupported value: "piix3-uhci": must be one of auto, virtio-scsi, lsilogic, lsisas1068, lsisas1078, buslogic, vmpvscsi, ncr53c90, am53c974, dc390, ibmvscsi, virtio-transitional, virtio-non-transitional for a scsi controller',
    ],
    accepted: controllers({ type: 'usb', index: 0, model: 'piix3-uhci' }),
  },
  {
    refused: controllers({ type: 'scsi', index: 0, model: 'buslogic' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Unsupported value: "buslogic": is not supported by QEMU on this node',
    ],
    accepted: controllers({ type: 'scsi', index: 0, model: 'virtio-scsi' }),
  },
  {
    refused: controllers({ type: 'scsi', index: 0, model: 'ncr53c90' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Unsupported value: "ncr53c90": is not supported by QEMU on this node',
    ],
    accepted: controllers({ type: 'scsi', index: 0, model: 'virtio-transitional' }),
  },
  {
    refused: controllers({ type: 'scsi', index: 0, model: 'lsilogic' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Unsupported value: "lsilogic": is not supported by QEMU on this node [node without SCSI controller lsilogic]',
    ],
    accepted: controllers({ type: 'scsi', index: 0, model: 'virtio-scsi' }),
    capabilities: { ...bundledCapabilities, devices: bundledCapabilities.devices.filter((name) => name !== 'lsi') },
  },
])

testRule('ide-controller', [
  {
    refused: controllers({ type: 'ide', index: 1 }),
    causes: [
      'spec.domain.devices.controllers[0].index: Invalid value: 1: must be 0: the machine type has one IDE controller',
    ],
    accepted: controllers({ type: 'ide', index: 0 }),
  },
  {
    refused: { ...machine('q35'), ...controllers({ type: 'ide', index: 0 }) },
    causes: [
      'spec.domain.devices.controllers[0]: Forbidden: is not supported by machine type q35, which has no IDE; put its disks on bus sata, or use machine type pc',
    ],
    accepted: { ...machine('q35'), ...controllers({ type: 'sata', index: 0 }) },
  },
  {
    refused: { ...machine('microvm'), ...controllers({ type: 'ide', index: 0 }) },
    causes: [
      'spec.domain.devices.controllers[0]: Forbidden: is not supported by machine type microvm, which has no IDE; use machine type pc',
    ],
    accepted: { ...machine('pc'), ...controllers({ type: 'ide', index: 0 }) },
  },
])

const driver = (controller: Controller, driver: Controller['driver']): Domain => ({
  iothreads: 1,
  ...controllers({ index: 0, ...controller, driver: { ...driver } }),
})

testRule('controller-driver', [
  {
    refused: driver({ type: 'virtio-serial' }, { iothread: 1 }),
    causes: [
      'spec.domain.devices.controllers[0].driver.iothread: Forbidden: can only be set for virtio-scsi controllers',
    ],
    accepted: driver({ type: 'scsi', model: 'virtio-scsi' }, { iothread: 1 }),
  },
  {
    refused: driver({ type: 'scsi', model: 'lsilogic' }, { queues: 2, cmdPerLun: 1, maxSectors: 1, ioeventfd: true }),
    causes: [
      'spec.domain.devices.controllers[0].driver.queues: Forbidden: can only be set for virtio-scsi controllers',
      'spec.domain.devices.controllers[0].driver.cmdPerLun: Forbidden: can only be set for virtio-scsi controllers',
      'spec.domain.devices.controllers[0].driver.maxSectors: Forbidden: can only be set for virtio-scsi controllers',
      'spec.domain.devices.controllers[0].driver.ioeventfd: Forbidden: can only be set for virtio-scsi controllers',
    ],
    accepted: driver(
      { type: 'scsi', model: 'virtio-transitional' },
      { queues: 2, cmdPerLun: 1, maxSectors: 1, ioeventfd: true },
    ),
  },
  {
    refused: driver({ type: 'virtio-serial', model: 'virtio-transitional' }, { ioeventfd: true }),
    causes: [
      'spec.domain.devices.controllers[0].driver.ioeventfd: Forbidden: can only be set for virtio-scsi controllers',
    ],
    accepted: driver({ type: 'scsi', model: 'virtio-non-transitional' }, { ioeventfd: true }),
  },
])

testRule('virtio-serial-ports', [
  {
    refused: controllers({ type: 'virtio-serial', index: 0, ports: 512 }),
    causes: ['spec.domain.devices.controllers[0].ports: Invalid value: 512: must be at most 511, the limit of QEMU'],
    accepted: controllers({ type: 'virtio-serial', index: 0, ports: 511, vectors: 4 }),
  },
  {
    refused: controllers({ type: 'scsi', index: 0, model: 'virtio-scsi', ports: 1, vectors: 1 }),
    causes: [
      'spec.domain.devices.controllers[0].ports: Forbidden: must not be set for a scsi controller',
      'spec.domain.devices.controllers[0].vectors: Forbidden: must not be set for a scsi controller',
    ],
    accepted: controllers({ type: 'scsi', index: 0, model: 'virtio-scsi' }),
  },
  {
    refused: controllers({ type: 'usb', index: 0, model: 'qemu-xhci', ports: 4, vectors: 1 }),
    causes: ['spec.domain.devices.controllers[0].vectors: Forbidden: must not be set for a usb controller'],
    accepted: controllers({ type: 'usb', index: 0, model: 'qemu-xhci', ports: 4 }),
  },
])
