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
