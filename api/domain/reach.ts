/**
 * What a field can affect when a VM runs with it: only the `guest`, the `pod` that the VM runs in, or the `host`. A
 * user cannot set a host-reaching field; only a ClusterVirtualMachinePreset can inject it.
 */
export type Reach = 'guest' | 'pod' | 'host'
