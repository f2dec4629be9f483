/**
 * What a guest uses, as the subresource `metrics` of a VM reports it. Counters begin with QEMU, or with the pod for the
 * network, and only grow.
 */
export interface GuestMetrics {
  readonly kind: 'VirtualMachineMetrics'
  readonly apiVersion: 'subresources.virtset.io/v1alpha1'
  /** RFC 3339, by the clock of the VM's node. */
  readonly time: string
  readonly cpu: {
    /** CPU time of QEMU: of the guest, and of what QEMU does for it. */
    readonly usageSeconds: number
    /** Virtual CPUs. */
    readonly count: number
  }
  readonly memory: {
    /** That the guest has. */
    readonly totalBytes: number
    /** That the guest uses, if its balloon driver reports it. */
    readonly usedBytes?: number
    /** That QEMU occupies on the node. */
    readonly residentBytes: number
  }
  readonly disks: readonly DiskMetrics[]
  /** The network devices of the VM's pod. */
  readonly network: readonly NetworkMetrics[]
}

export interface DiskMetrics {
  /** For example `vda`. */
  readonly target: string
  readonly readBytes: number
  readonly writtenBytes: number
  readonly reads: number
  readonly writes: number
}

export interface NetworkMetrics {
  readonly name: string
  readonly receivedBytes: number
  readonly sentBytes: number
}

/**
 * Metrics as a launcher sent them. A guest that has taken it over can send anything, so only the known fields remain,
 * and no text that a terminal would interpret.
 *
 * @throws Error if they are not metrics
 */
export function parseGuestMetrics(value: unknown): GuestMetrics {
  const { time, cpu, memory, disks, network } = fieldsOf(value)
  const { usageSeconds, count } = fieldsOf(cpu)
  const { totalBytes, usedBytes, residentBytes } = fieldsOf(memory)
  return {
    kind: 'VirtualMachineMetrics',
    apiVersion: 'subresources.virtset.io/v1alpha1',
    time: textOf(time),
    cpu: { usageSeconds: numberOf(usageSeconds), count: numberOf(count) },
    memory: {
      totalBytes: numberOf(totalBytes),
      ...(usedBytes === undefined ? {} : { usedBytes: numberOf(usedBytes) }),
      residentBytes: numberOf(residentBytes),
    },
    disks: itemsOf(disks, 'target').map(({ target, readBytes, writtenBytes, reads, writes }) => ({
      target: textOf(target),
      readBytes: numberOf(readBytes),
      writtenBytes: numberOf(writtenBytes),
      reads: numberOf(reads),
      writes: numberOf(writes),
    })),
    network: itemsOf(network, 'name').map(({ name, receivedBytes, sentBytes }) => ({
      name: textOf(name),
      receivedBytes: numberOf(receivedBytes),
      sentBytes: numberOf(sentBytes),
    })),
  }
}

const notMetrics = 'The VM’s launcher did not send metrics.'

type Fields = Readonly<Record<string, unknown>>

const isFields = (value: unknown): value is Fields => typeof value === 'object' && value !== null

function fieldsOf(value: unknown): Fields {
  if (!isFields(value)) throw new Error(notMetrics)
  return value
}

/** Without those whose name cannot be shown: Linux accepts any characters in the name of a network device. */
function itemsOf(value: unknown, name: string): Fields[] {
  if (!Array.isArray(value)) throw new Error(notMetrics)
  return value.map(fieldsOf).filter((fields) => typeof fields[name] !== 'string' || isWord(fields[name]))
}

/** JSON has numbers that are infinite once they are parsed. */
function numberOf(value: unknown): number {
  if (typeof value !== 'number' || !Number.isFinite(value)) throw new Error(notMetrics)
  return value
}

/** A time, or the name of a device: one word of ASCII. */
function textOf(value: unknown): string {
  if (typeof value !== 'string' || !isWord(value)) throw new Error(notMetrics)
  return value
}

const isWord = (text: string): boolean => /^[!-~]{1,64}$/.test(text)
