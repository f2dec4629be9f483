import { attribute, child, children, element, leaf } from '../description.ts'
import { maxIothreads, maxVcpus } from '../limits.ts'
import { cpuset, int64, integer, oneOf, uint32, uint64, unit } from '../scalar.ts'
import { line } from '../text.ts'

/** All of this affects the CPUs and caches of the node. */
const host = { reach: 'host' } as const

const scheduling = {
  scheduler: attribute(oneOf('batch', 'idle', 'fifo', 'rr'), "The kernel's scheduler.", host),
  priority: attribute(integer({ min: 0, max: 99 }), 'The priority, for `fifo` and `rr`.', host),
} as const

const cacheLevel = integer({ min: 1, max: 3 })

const pinned = attribute(cpuset, 'CPUs of the node.', host)

const vcpupin = element('The CPUs that a virtual CPU is pinned to.', {
  vcpu: attribute(uint32, 'The virtual CPU.', host),
  cpuset: pinned,
})

const iothreadpin = element('The CPUs that an I/O thread is pinned to.', {
  iothread: attribute(uint32, 'The I/O thread.', host),
  cpuset: pinned,
})

const vcpusched = element('How the node schedules virtual CPUs.', {
  vcpus: attribute(cpuset, 'The virtual CPUs.', host),
  ...scheduling,
})

const iothreadsched = element('How the node schedules I/O threads.', {
  iothreads: attribute(cpuset, 'The I/O threads.', host),
  ...scheduling,
})

const cacheMonitor = element('Monitors the use of the cache.', {
  level: attribute(integer({ min: 3, max: 3 }), 'The level of the cache; only 3 can be monitored.', host),
  vcpus: attribute(cpuset, 'The monitored virtual CPUs.', host),
})

const cacheShare = element(
  'A share of a cache.',
  {
    id: attribute(uint32, 'The number of the cache on the node.', host),
    level: attribute(cacheLevel, 'The level of the cache.', host),
    type: attribute(oneOf('both', 'code', 'data'), 'What the share is for.', host),
    size: attribute(uint64, 'The size.', host),
    unit: attribute(unit, 'The unit of the size; bytes if absent.', host),
  },
  { scale: { value: 'size', unit: 'unit', absent: 'bytes', to: 'largest' } },
)

const cachetune = element("Shares of the node's caches for some virtual CPUs.", {
  vcpus: attribute(cpuset, 'The virtual CPUs.', host),
  id: attribute(line(255), 'The name of the allocation while the VM runs.', host),
  caches: children('cache', cacheShare, 'The shares.', host),
  monitors: children('monitor', cacheMonitor, 'The monitors.', host),
})

const bandwidth = element('A share of the memory bandwidth of a NUMA node.', {
  id: attribute(uint32, 'The NUMA node.', host),
  bandwidth: attribute(uint32, 'Percent.', host),
})

const memoryMonitor = element('Monitors the use of the bandwidth.', {
  vcpus: attribute(cpuset, 'The monitored virtual CPUs.', host),
})

const memorytune = element('Shares of memory bandwidth for some virtual CPUs.', {
  vcpus: attribute(cpuset, 'The virtual CPUs.', host),
  nodes: children('node', bandwidth, 'The shares.', host),
  monitors: children('monitor', memoryMonitor, 'The monitors.', host),
})

const emulatorpin = element("The CPUs that QEMU's own threads are pinned to.", { cpuset: pinned })
const emulatorsched = element("How the node schedules QEMU's own threads.", scheduling)

const period = (description: string, xml?: string) =>
  leaf(uint64, `${description}, in microseconds.`, xml === undefined ? host : { ...host, xml })
const quota = (description: string, xml?: string) =>
  leaf(
    int64,
    `${description}, in microseconds per period; negative for no limit.`,
    xml === undefined ? host : { ...host, xml },
  )

export const cputune = element('How the node schedules the threads of the VM.', {
  shares: leaf(uint64, 'The weight relative to other VMs on the node.', host),
  period: period('The period of the quota of the virtual CPUs'),
  quota: quota('CPU time of each virtual CPU'),
  globalPeriod: period('The period of the global quota', 'global_period'),
  globalQuota: quota('CPU time of the whole VM', 'global_quota'),
  emulatorPeriod: period("The period of the quota of QEMU's own threads", 'emulator_period'),
  emulatorQuota: quota("CPU time of QEMU's own threads", 'emulator_quota'),
  iothreadPeriod: period('The period of the quota of the I/O threads', 'iothread_period'),
  iothreadQuota: quota('CPU time of each I/O thread', 'iothread_quota'),
  vcpupins: children('vcpupin', vcpupin, 'The CPUs that virtual CPUs are pinned to.', {
    ...host,
    key: [['vcpu']],
    maxItems: maxVcpus,
  }),
  emulatorpin: child(emulatorpin, "The CPUs that QEMU's own threads are pinned to.", host),
  iothreadpins: children('iothreadpin', iothreadpin, 'The CPUs that I/O threads are pinned to.', {
    ...host,
    key: [['iothread']],
    maxItems: maxIothreads,
  }),
  vcpuscheds: children('vcpusched', vcpusched, 'How virtual CPUs are scheduled.', {
    ...host,
    key: [['vcpus']],
    maxItems: maxVcpus,
  }),
  iothreadscheds: children('iothreadsched', iothreadsched, 'How I/O threads are scheduled.', {
    ...host,
    maxItems: maxIothreads,
    key: [['iothreads']],
  }),
  emulatorsched: child(emulatorsched, "How QEMU's own threads are scheduled.", host),
  cachetunes: children('cachetune', cachetune, 'Shares of caches.', { ...host, key: [['vcpus']] }),
  memorytunes: children('memorytune', memorytune, 'Shares of memory bandwidth.', { ...host, key: [['vcpus']] }),
})
