import { attribute, child, children, element } from '../description.ts'
import { maxIothreads } from '../limits.ts'
import { uint32 } from '../scalar.ts'

const poll = element('How long the thread polls before it sleeps.', {
  max: attribute(uint32, 'The longest time, in nanoseconds; 0 never polls.'),
  grow: attribute(uint32, 'The factor by which the time grows.'),
  shrink: attribute(uint32, 'The divisor by which the time shrinks.'),
})

const pool = {
  threadPoolMin: attribute(uint32, 'The minimum number of worker threads.', { xml: 'thread_pool_min' }),
  threadPoolMax: attribute(uint32, 'The maximum number of worker threads.', { xml: 'thread_pool_max' }),
} as const

const iothread = element('One I/O thread.', {
  id: attribute(uint32, 'Its number, from 1; disks refer to it.'),
  ...pool,
  poll: child(poll, 'How long it polls before it sleeps.'),
})

export const iothreadids = element('The individual I/O threads.', {
  iothreads: children('iothread', iothread, 'Each I/O thread.', { key: [['id']], maxItems: maxIothreads }),
})

export const defaultiothread = element("The worker threads of QEMU's main loop.", pool)
