import fc from 'fast-check'
import type { DeviceOf } from '../../../completion/defaults/rule.ts'
import { pci } from './address.ts'
import { any, many, part, rarely, small, weighted } from './part.ts'

type Controller = DeviceOf<'controllers'>

const controller = weighted(
  [
    2,
    rarely(
      { type: fc.constant('usb') },
      {
        index: small(2),
        model: fc.constantFrom(
          'piix3-uhci',
          'qemu-xhci',
          'nec-xhci',
          'ehci',
          'ich9-ehci1',
          'ich9-uhci1',
          'none',
          'pci-ohci',
        ),
        ports: small(16),
        address: pci,
      },
    ),
  ],
  [
    2,
    rarely(
      { type: fc.constant('scsi') },
      {
        index: small(2),
        model: fc.constantFrom('virtio-scsi', 'lsilogic', 'lsisas1068', 'auto', 'buslogic', 'virtio-transitional'),
        address: pci,
        driver: part({}, { queues: small(4), iothread: fc.integer({ min: 1, max: 3 }) }),
      },
    ),
  ],
  [
    3,
    rarely(
      { type: fc.constant('pci') },
      {
        index: small(4),
        model: fc.constantFrom(
          'pci-bridge',
          'pcie-root-port',
          'pcie-to-pci-bridge',
          'dmi-to-pci-bridge',
          'pcie-switch-upstream-port',
          'pcie-switch-downstream-port',
          'pcie-expander-bus',
          'pci-expander-bus',
          'pci-root',
          'pcie-root',
        ),
        address: pci,
      },
    ),
  ],
  [
    1,
    rarely(
      { type: fc.constant('virtio-serial') },
      { index: small(1), ports: small(40), vectors: small(8), address: pci },
    ),
  ],
  [1, rarely({ type: fc.constantFrom('sata', 'ide', 'fdc', 'ccid') }, { index: small(1), address: pci })],
  [1, rarely({ type: any('devices.controllers.type') }, { index: small(1), model: any('devices.controllers.model') })],
).map((made) => () => made)

export const controllers = many(controller, 4)

/** Drops controllers and options that do not fit the machine type, and adds the root of PCI if needed. */
export const carefulControllers = (controllers: readonly Controller[], isQ35: boolean): Controller[] => {
  const fitting = controllers.filter((one) => fits(one, isQ35)).map(careful)
  const needsRoot = fitting.some(({ type }) => type === 'pci') && !fitting.some(({ model }) => model?.endsWith('-root'))
  return needsRoot ? [{ type: 'pci', index: 0, model: isQ35 ? 'pcie-root' : 'pci-root' }, ...fitting] : fitting
}

const ofPc: readonly (string | undefined)[] = ['usb', 'scsi', 'pci', 'virtio-serial', 'sata', 'ide', 'fdc', 'ccid']

const fits = ({ type, index, model }: Controller, isQ35: boolean): boolean => {
  if (type !== 'pci') return ofPc.includes(type) && (type !== 'ide' || !isQ35)
  if (model === undefined || model.startsWith('pcie-') !== isQ35) return model === 'pci-bridge' && !isQ35
  return model.endsWith('-root') ? index === 0 : Number(index ?? 1) > 0
}

/** Drops addresses, ports and driver options of models that do not support them. */
const careful = ({ address, ports, driver, ...one }: Controller): Controller => ({
  ...one,
  ...(address && one.type !== 'ide' && one.model !== 'piix3-uhci' && one.model !== undefined ? { address } : {}),
  ...(ports !== undefined && (one.model?.endsWith('xhci') || one.type === 'virtio-serial') ? { ports } : {}),
  ...(driver && one.model?.startsWith('virtio') ? { driver } : {}),
})
