import { attribute, children, element } from '../description.ts'
import { maxIothreads } from '../limits.ts'
import { uint32 } from '../scalar.ts'

const queue = element('A virtqueue that the thread serves.', { id: attribute(uint32, 'Number of the queue.') })

const iothread = element('An I/O thread that serves queues of the device.', {
  id: attribute(uint32, 'Number of the thread, from 1 up to `iothreads`.'),
  queues: children('queue', queue, 'The queues that it serves; libvirt distributes them if absent.', {
    key: [['id']],
    maxItems: 1024,
  }),
})

export const iothreadMapping = element('The I/O threads that serve the device.', {
  iothreads: children('iothread', iothread, 'Each thread.', { key: [['id']], maxItems: maxIothreads }),
})
