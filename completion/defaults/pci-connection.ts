import { connect } from './pci-bus.ts'
import type { DeviceOf } from './rule.ts'

/** What devices require of a PCI bus; 0 for a device that is not on one. */
export interface Connections {
  /** A device on conventional PCI. */
  readonly pci: number
  /** A device on PCI Express, if the machine has it. */
  readonly pcie: number
}

export const connectionsOf = (isExpress: boolean): Connections => {
  const pci = connect.pciDevice | connect.automatic
  return { pci, pcie: isExpress ? connect.pcieDevice | connect.automatic : pci }
}

/** Virtio devices are on PCI Express, except the transitional model, which supports guests without virtio 1.0. */
export const virtioConnection = (model: string | undefined, { pci, pcie }: Connections): number =>
  model === 'virtio-transitional' ? pci : pcie

export const controllerConnection = ({ type, model }: DeviceOf<'controllers'>, connections: Connections): number => {
  switch (type) {
    case 'ide':
    case 'sata':
      return connections.pci
    case 'usb':
      return model === 'none' ? 0 : model === 'nec-xhci' || model === 'qemu-xhci' ? connections.pcie : connections.pci
    case 'scsi':
      if (model === 'ibmvscsi') return 0
      return model === 'virtio-scsi' || model?.startsWith('virtio')
        ? virtioConnection(model, connections)
        : connections.pci
    case 'virtio-serial':
      return virtioConnection(model, connections)
    default:
      return 0
  }
}

/** Network cards that libvirt knows to be conventional PCI. It assumes that unknown ones are PCI Express. */
const conventionalCards = new Set([
  'netfront',
  'rtl8139',
  'e1000',
  'lan9118',
  'scm91c111',
  'vlance',
  'vmxnet',
  'vmxnet2',
  'vmxnet3',
  'am79c970a',
  'am79c973',
  '82540em',
  '82545em',
  '82543gc',
])

export const interfaceConnection = (type: string | undefined, connections: Connections): number => {
  const model = type?.toLowerCase()
  if (model === 'usb-net' || model === 'spapr-vlan') return 0
  if (model?.startsWith('virtio')) return virtioConnection(model, connections)
  return model === undefined || conventionalCards.has(model) ? connections.pci : connections.pcie
}

export const soundConnection = ({ model }: DeviceOf<'sounds'>, connections: Connections): number => {
  if (model === 'sb16' || model === 'pcspk' || model === 'usb') return 0
  return model === 'virtio' ? connections.pcie : connections.pci
}

export const videoConnection = (type: string | undefined, connections: Connections): number => {
  if (type === 'none' || type === 'ramfb' || type === undefined) return 0
  return type === 'virtio' || type === 'bochs' ? connections.pcie : connections.pci
}

/** Whether a host device is PCI Express is unknown here. libvirt assumes PCI Express in that case too. */
export const hostdevConnection = ({ type, model }: DeviceOf<'hostdevs'>, connections: Connections): number => {
  if (type === 'pci') return connections.pcie
  if (type === 'mdev') return model === undefined || model === 'vfio-pci' ? connections.pcie : 0
  return type === 'scsi_host' ? virtioConnection(model, connections) : 0
}

/** A virtio IOMMU is part of the chipset. */
export const iommuConnection = (model: string | undefined, { pcie }: Connections): number =>
  model === 'virtio' ? (pcie & ~connect.automatic) | connect.integrated : 0

/** So is a panic device on PCI. */
export const panicConnection = (model: string | undefined, { pcie }: Connections): number =>
  model === 'pvpanic' ? (pcie & ~connect.automatic) | connect.integrated : 0

export const memoryConnection = (model: string | undefined, { pcie }: Connections): number =>
  model === 'virtio-pmem' || model === 'virtio-mem' ? pcie : 0
