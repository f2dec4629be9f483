import { expect, test } from 'vitest'
import { connect } from './pci-bus.ts'
import * as connection from './pci-connection.ts'

const pci = connect.pciDevice | connect.automatic
const pcie = connect.pcieDevice | connect.automatic
const [conventional, express] = [connection.connectionsOf(false), connection.connectionsOf(true)]

test('on a machine without PCI Express all devices are conventional PCI', () => {
  expect([conventional.pcie, connection.virtioConnection('virtio', conventional)]).toEqual([pci, pci])
})

test.each<[string, number, number]>([
  ['virtio', connection.virtioConnection('virtio', express), pcie],
  ['transitional virtio', connection.virtioConnection('virtio-transitional', express), pci],
  ['an xHCI controller', connection.controllerConnection({ type: 'usb', model: 'qemu-xhci' }, express), pcie],
  ['an EHCI controller', connection.controllerConnection({ type: 'usb', model: 'ehci' }, express), pci],
  ['no USB', connection.controllerConnection({ type: 'usb', model: 'none' }, express), 0],
  ['a SCSI controller of POWER', connection.controllerConnection({ type: 'scsi', model: 'ibmvscsi' }, express), 0],
  ['an E1000', connection.interfaceConnection('E1000', express), pci],
  ['an E1000E', connection.interfaceConnection('e1000e', express), pcie],
  ['a network card on USB', connection.interfaceConnection('usb-net', express), 0],
  ['a PC speaker', connection.soundConnection({ model: 'pcspk' }, express), 0],
  ['no graphics card', connection.videoConnection('none', express), 0],
  ['memory modules', connection.memoryConnection('dimm', express), 0],
])('%s has the expected connection', (_, found, expected) => expect(found).toBe(expected))

test('a virtio IOMMU and a panic device are part of the chipset', () => {
  const integrated = connect.pcieDevice | connect.integrated
  expect(connection.iommuConnection('virtio', express)).toBe(integrated)
  expect(connection.panicConnection('pvpanic', express)).toBe(integrated)
})
