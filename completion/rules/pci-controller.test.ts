import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

type Controller = DeviceOf<'controllers'>

const pci = (...controllers: Controller[]): Domain => ({
  devices: { controllers: controllers.map((controller) => ({ type: 'pci', ...controller })) },
})

const q35: Domain = { os: { type: { os: 'hvm', machine: 'q35' } } }

const at = (slot: number, bus = 0) => ({ type: 'pci' as const, bus, slot })

testRule('pci-root-model', [
  {
    refused: pci({ index: 0, model: 'pcie-root' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "pcie-root": must be pci-root, the PCI controller 0 of machine type pc',
    ],
    accepted: pci({ index: 0, model: 'pci-root' }),
  },
  {
    refused: { ...q35, ...pci({ index: 0, model: 'pci-root' }) },
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "pci-root": must be pcie-root, the PCI controller 0 of machine type q35',
    ],
    accepted: { ...q35, ...pci({ index: 0, model: 'pcie-root' }) },
  },
])

testRule('pci-root', [
  {
    refused: pci({ index: 1, model: 'pci-root' }),
    causes: ['spec.domain.devices.controllers[0].index: Invalid value: 1: must be 0 for a pci-root'],
    accepted: pci({ index: 0, model: 'pci-root' }),
  },
  {
    refused: pci({ index: 0, model: 'pci-root', address: at(9) }),
    causes: [
      'spec.domain.devices.controllers[0].address: Forbidden: must not be set: a pci-root is not plugged into another bus',
    ],
    accepted: pci({ index: 0, model: 'pci-root' }),
  },
  {
    refused: pci({ index: 1, address: at(9) }),
    causes: ['spec.domain.devices.controllers[0].model: Required value: must be set for a PCI controller'],
    accepted: pci({ index: 1, model: 'pci-bridge', address: at(9) }),
  },
])

testRule('pci-controller-options', [
  {
    refused: pci({ index: 1, model: 'pci-bridge', modelName: { name: 'pxb' } }),
    causes: [
      'spec.domain.devices.controllers[0].modelName.name: Invalid value: "pxb": is not a chip of model pci-bridge',
    ],
    accepted: pci({ index: 1, model: 'pci-bridge', modelName: { name: 'pci-bridge' } }),
  },
  {
    refused: { ...q35, ...pci({ index: 1, model: 'pcie-root-port', modelName: { name: 'x3130-upstream' } }) },
    causes: [
      'spec.domain.devices.controllers[0].modelName.name: Invalid value: "x3130-upstream": is not a chip of model pcie-root-port',
    ],
    accepted: { ...q35, ...pci({ index: 1, model: 'pcie-root-port', modelName: { name: 'ioh3420' } }) },
  },
  {
    refused: { ...q35, ...pci({ index: 1, model: 'pcie-root-port', target: { chassisNr: 1 } }) },
    causes: [
      'spec.domain.devices.controllers[0].target.chassisNr: Forbidden: can only be set for model pci-bridge, not for pcie-root-port',
    ],
    accepted: { ...q35, ...pci({ index: 1, model: 'pcie-root-port', target: { chassis: 1 } }) },
  },
  {
    refused: pci({ index: 1, model: 'pci-bridge', target: { chassis: 1, port: 1 } }),
    causes: [
      'spec.domain.devices.controllers[0].target.chassis: Forbidden: can only be set for model pcie-root-port, pcie-switch-downstream-port, not for pci-bridge',
      'spec.domain.devices.controllers[0].target.port: Forbidden: can only be set for model pcie-root-port, pcie-switch-downstream-port, not for pci-bridge',
    ],
    accepted: pci({ index: 1, model: 'pci-bridge', target: { chassisNr: 1 } }),
  },
  {
    refused: pci({ index: 1, model: 'pci-bridge', target: { busNr: 100, hotplug: false } }),
    causes: [
      'spec.domain.devices.controllers[0].target.busNr: Forbidden: can only be set for model pci-expander-bus, pcie-expander-bus, not for pci-bridge',
      'spec.domain.devices.controllers[0].target.hotplug: Forbidden: can only be set for model pci-root, pcie-root-port, pcie-switch-downstream-port, not for pci-bridge',
    ],
    accepted: pci({ index: 1, model: 'pci-expander-bus', target: { busNr: 100 } }),
  },
  {
    refused: pci({ index: 1, model: 'pci-bridge', target: { index: 1 } }),
    causes: ['spec.domain.devices.controllers[0].target.index: Forbidden: is not supported on x86'],
    accepted: pci({ index: 1, model: 'pci-bridge', target: {} }),
  },
  {
    refused: { ...q35, ...pci({ index: 1, model: 'pcie-switch-upstream-port', target: { memReserve: 1024 } }) },
    causes: [
      'spec.domain.devices.controllers[0].target.memReserve: Forbidden: can only be set for model pcie-root-port, pci-bridge, pcie-to-pci-bridge, not for pcie-switch-upstream-port',
    ],
    accepted: { ...q35, ...pci({ index: 1, model: 'pcie-root-port', target: { memReserve: 1024 } }) },
  },
  {
    refused: pci({ index: 1, model: 'pci-bridge', target: { chassisNr: 0 } }),
    causes: ['spec.domain.devices.controllers[0].target.chassisNr: Invalid value: 0: must be from 1 to 255'],
    accepted: pci({ index: 1, model: 'pci-bridge', target: { chassisNr: 1 } }),
  },
  {
    refused: pci({ index: 1, model: 'pci-expander-bus', target: { busNr: 0 } }),
    causes: ['spec.domain.devices.controllers[0].target.busNr: Invalid value: 0: must be from 1 to 254'],
    accepted: pci({ index: 1, model: 'pci-expander-bus', target: { busNr: 1 } }),
  },
  {
    refused: pci({ index: 1, model: 'pci-expander-bus', target: { busNr: 255 } }),
    causes: ['spec.domain.devices.controllers[0].target.busNr: Invalid value: 255: must be from 1 to 254'],
    accepted: pci({ index: 1, model: 'pci-expander-bus', target: { busNr: 254 } }),
  },
  {
    refused: pci({ index: 1, model: 'pci-expander-bus', target: { node: 0 } }),
    causes: ['spec.domain.devices.controllers[0].target.node: Not found: 0: cpu.numa has no cell with this id'],
    accepted: {
      ...pci({ index: 1, model: 'pci-expander-bus', target: { node: 0 } }),
      cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' }] } },
    },
  },
  {
    refused: { ...q35, ...pci({ index: 1, model: 'pci-expander-bus' }) },
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "pci-expander-bus": is only supported on i440fx machine types',
    ],
    accepted: { ...q35, ...pci({ index: 1, model: 'pcie-expander-bus' }) },
  },
  {
    refused: pci({ index: 1, model: 'pcie-root-port' }),
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "pcie-root-port": is only supported on q35 machine types',
    ],
    accepted: { ...q35, ...pci({ index: 1, model: 'pcie-root-port' }) },
  },
])

testRule('pci-order', [
  {
    refused: { ...q35, ...pci({ index: 1, model: 'pcie-switch-downstream-port' }) },
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "pcie-switch-downstream-port": requires a PCI controller that it can be plugged into',
    ],
    accepted: { ...q35, ...pci({ index: 1, model: 'pcie-switch-upstream-port' }) },
  },
  {
    refused: { ...q35, ...pci({ index: 1, model: 'pcie-switch-downstream-port', address: { type: 'pci' } }) },
    causes: [
      'spec.domain.devices.controllers[0].model: Invalid value: "pcie-switch-downstream-port": requires a PCI controller that it can be plugged into',
    ],
    accepted: { ...q35, ...pci({ index: 1, model: 'pcie-switch-upstream-port', address: { type: 'pci' } }) },
  },
  {
    refused: pci({ index: 1, model: 'pci-bridge', address: at(9, 1) }),
    causes: [
      'spec.domain.devices.controllers[0].address.bus: Invalid value: 1: must be less than 1, the index of the bridge, because buses are enumerated in order',
    ],
    accepted: pci({ index: 1, model: 'pci-bridge', address: at(9, 0) }),
  },
])

testRule('pci-hole', [
  {
    refused: pci({ index: 1, model: 'pci-bridge', pcihole64: { value: 1024 } }),
    causes: ['spec.domain.devices.controllers[0].pcihole64: Forbidden: can only be set for pci-root and pcie-root'],
    accepted: pci({ index: 0, model: 'pci-root', pcihole64: { value: 1024 } }),
  },
  {
    refused: { devices: { controllers: [{ type: 'scsi', index: 0, pcihole64: { value: 1024 } }] } },
    causes: ['spec.domain.devices.controllers[0].pcihole64: Forbidden: can only be set for pci-root and pcie-root'],
    accepted: { devices: { controllers: [{ type: 'scsi', index: 0 }] } },
  },
])

const isapc: Domain = { os: { type: { os: 'hvm', machine: 'isapc' } } }

testSilent('pci-root-model', [{ ...isapc, ...pci({ index: 0, model: 'pcie-root' }) }])
testSilent('pci-controller-options', [
  { devices: { controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi', target: { chassisNr: 1 } }] } },
  pci({ index: 1, target: { chassisNr: 1 } }),
  pci({ index: 1, model: 'virtio', modelName: { name: 'pxb' } }),
  { ...isapc, ...pci({ index: 1, model: 'pcie-root-port' }) },
])
testSilent('pci-order', [
  { ...isapc, ...pci({ index: 1, model: 'pci-bridge' }) },
  pci({ index: 1, model: 'pci-bridge', address: { type: 'pci', bus: 0 } }),
  pci({ index: 1, model: 'pci-bridge', address: { type: 'pci', slot: 9 } }),
  { ...q35, ...pci({ index: 1, model: 'pcie-switch-downstream-port', address: { type: 'pci', bus: 7 } }) },
  { ...q35, ...pci({ index: 1, model: 'pcie-switch-downstream-port', address: { type: 'pci', slot: 7 } }) },
  { ...q35, ...pci({ index: 1, model: 'pcie-switch-downstream-port', address: { type: 'isa' } }) },
])
