import { attribute, child, children, element, leaf } from '../description.ts'
import { maxIothreads, maxVcpus } from '../limits.ts'
import { cpuset, int64, integer, oneOf, uint32, uint64, unit } from '../scalar.ts'
import { line } from '../text.ts'

/** All of this is about CPUs and caches of the node. */
const host = { reach: 'host' } as const

const scheduling = {
  scheduler: attribute(oneOf('batch', 'idle', 'fifo', 'rr'), "The kernel's scheduler.", host),
  priority: attribute(integer({ min: 0, max: 99 }), 'The priority, for `fifo` and `rr`.', host),
} as const

const cacheLevel = integer({ min: 1, max: 3 })

const pinned = attribute(cpuset, 'CPUs of the node.', host)

const vcpupin = element('Where one virtual CPU runs.', {
  vcpu: attribute(uint32, 'The virtual CPU.', host),
  cpuset: pinned,
})

const iothreadpin = element('Where one I/O thread runs.', {
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

const cacheMonitor = element('Watches how much cache is used.', {
  level: attribute(cacheLevel, 'The level of the cache.', host),
  vcpus: attribute(cpuset, 'The virtual CPUs that are watched.', host),
})

const cacheShare = element(
  'A share of a cache.',
  {
    id: attribute(uint32, 'The cache, as the node numbers them.', host),
    level: attribute(cacheLevel, 'The level of the cache.', host),
    type: attribute(oneOf('both', 'code', 'data'), 'What the share is for.', host),
    size: attribute(uint64, 'How much.', host),
    unit: attribute(unit, 'The unit of the size; bytes where absent.', host),
  },
  { scale: { value: 'size', unit: 'unit', absent: 'bytes', to: 'largest' } },
)

const cachetune = element("Shares of the node's caches for some virtual CPUs.", {
  vcpus: attribute(cpuset, 'The virtual CPUs.', host),
  id: attribute(line(255), 'The name that the allocation has while the VM runs.', host),
  caches: children('cache', cacheShare, 'The shares.', host),
  monitors: children('monitor', cacheMonitor, 'What is watched.', host),
})

const bandwidth = element('A share of the memory bandwidth of a NUMA node.', {
  id: attribute(uint32, 'The NUMA node.', host),
  bandwidth: attribute(uint32, 'Percent.', host),
})

const memoryMonitor = element('Watches how much bandwidth is used.', {
  vcpus: attribute(cpuset, 'The virtual CPUs that are watched.', host),
})

const memorytune = element('Shares of memory bandwidth for some virtual CPUs.', {
  vcpus: attribute(cpuset, 'The virtual CPUs.', host),
  nodes: children('node', bandwidth, 'The shares.', host),
  monitors: children('monitor', memoryMonitor, 'What is watched.', host),
})

const emulatorpin = element("Where QEMU's own threads run.", { cpuset: pinned })
const emulatorsched = element("How the node schedules QEMU's own threads.", scheduling)

const period = (description: string, xml?: string) =>
  leaf(uint64, `${description}, in microseconds.`, xml === undefined ? host : { ...host, xml })
const quota = (description: string, xml?: string) =>
  leaf(
    int64,
    `${description}, in microseconds a period; negative for no limit.`,
    xml === undefined ? host : { ...host, xml },
  )

export const cputune = element('How the node runs the threads of the VM.', {
  shares: leaf(uint64, 'Weight against other VMs of the node.', host),
  period: period('The period in which the quota of the virtual CPUs counts'),
  quota: quota('CPU time of each virtual CPU'),
  globalPeriod: period('The period in which the global quota counts', 'global_period'),
  globalQuota: quota('CPU time of the whole VM', 'global_quota'),
  emulatorPeriod: period("The period in which the quota of QEMU's own threads counts", 'emulator_period'),
  emulatorQuota: quota("CPU time of QEMU's own threads", 'emulator_quota'),
  iothreadPeriod: period('The period in which the quota of the I/O threads counts', 'iothread_period'),
  iothreadQuota: quota('CPU time of each I/O thread', 'iothread_quota'),
  vcpupins: children('vcpupin', vcpupin, 'Where virtual CPUs run.', {
    ...host,
    key: [['vcpu']],
    maxItems: maxVcpus,
  }),
  emulatorpin: child(emulatorpin, "Where QEMU's own threads run.", host),
  iothreadpins: children('iothreadpin', iothreadpin, 'Where I/O threads run.', {
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
