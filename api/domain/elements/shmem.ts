import { deviceFields } from './address.ts'
import { attribute, child, element } from '../description.ts'
import { oneOf, onOff, socketPath, uint32 } from '../scalar.ts'
import { size } from './size.ts'
import { fileName } from '../text.ts'

const host = { reach: 'host' } as const

export const shmem = element('Memory that VMs and the node share.', {
  name: attribute(fileName, 'The name of the memory on the node.', host),
  role: attribute(oneOf('master', 'peer'), 'Whether the memory migrates with the guest.', host),
  model: child(
    element('The device that the guest sees.', {
      type: attribute(oneOf('ivshmem', 'ivshmem-plain', 'ivshmem-doorbell'), 'The device.', host),
    }),
    'The device that the guest sees.',
  ),
  size: child(
    size('The amount of memory.', { absent: 'bytes', to: 'M' }, host),
    'The amount of memory; a power of two.',
  ),
  server: child(
    element('The server that provides it.', { path: attribute(socketPath, 'Its socket.', host) }),
    'The server that provides it, with `ivshmem-doorbell`.',
  ),
  msi: child(
    element('Interrupts between the VMs.', {
      vectors: attribute(uint32, 'The number of vectors.', host),
      ioeventfd: attribute(onOff, "Whether they are handled without stopping the guest's CPU.", host),
    }),
    'Interrupts between the VMs.',
  ),
  ...deviceFields,
})
