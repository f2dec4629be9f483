import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { integer, oneOf, onOff, path, uint32, yesNo } from '../scalar.ts'
import { virtioFields } from './virtio.ts'

const host = { reach: 'host' } as const

const acceleration = element('Acceleration by the graphics card of the node.', {
  accel2d: attribute(yesNo, 'Whether 2D acceleration is enabled.'),
  accel3d: attribute(yesNo, 'Whether 3D acceleration is enabled, with `virtio`.', host),
  rendernode: attribute(path, 'The device file of the graphics card, with a vhost-user driver.', host),
})

/** libvirt rounds it up to a power of two, and stores it in 32 bits. */
const videoMemory = integer({ min: 0, max: 2 ** 31 })

const model = element('The graphics card that the guest sees.', {
  type: attribute(
    oneOf('vga', 'cirrus', 'qxl', 'virtio', 'bochs', 'ramfb', 'vmvga', 'gop', 'none'),
    'The card; `none` means that the guest has no screen. The machine type decides if absent.',
  ),
  ram: attribute(videoMemory, 'First memory of QXL, in KiB.'),
  vram: attribute(videoMemory, 'Video memory, in KiB; the second memory of QXL.'),
  vram64: attribute(videoMemory, 'Second memory of QXL for 64-bit guests, in KiB.'),
  vgamem: attribute(videoMemory, 'Frame buffer of QXL in VGA mode, in KiB.'),
  heads: attribute(uint32, 'The number of screens that can be connected.'),
  primary: attribute(yesNo, 'Whether it is the card that the firmware uses.'),
  blob: attribute(onOff, 'Whether `virtio` shares memory with the node instead of copying.'),
  acceleration: child(acceleration, 'Acceleration by the graphics card of the node.'),
  resolution: child(
    element('The resolution that the guest should prefer.', {
      x: attribute(uint32, 'Pixels across.'),
      y: attribute(uint32, 'Pixels down.'),
    }),
    'The resolution that the guest should prefer.',
  ),
})

const driver = element('How QEMU serves the graphics card.', {
  name: attribute(oneOf('qemu', 'vhostuser'), 'QEMU itself, or a process beside it.', {
    reachOf: { vhostuser: 'host' },
  }),
  vgaconf: attribute(oneOf('io', 'on', 'off'), 'How the VGA registers are accessed.'),
  ...virtioFields,
})

export const video = element('A graphics card.', {
  driver: child(driver, 'How QEMU serves it.'),
  model: child(model, 'The card that the guest sees.'),
  ...deviceFields,
})
