import { completedByAnnotation, launcherPodFinalizer } from '../api/virtual-machine.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import { apiVersion } from '../api/object.ts'
import type { Persisted } from '../runtime/resource.ts'

/** A VM as admission stores it: complete, held by the finalizer. `over` replaces members, `metadata` is merged. */
export function storedVm(
  over: Partial<Omit<VirtualMachine, 'metadata'>> & { metadata?: VirtualMachine['metadata'] } = {},
): Persisted<VirtualMachine> {
  const { metadata, ...rest } = over
  return {
    apiVersion,
    kind: 'VirtualMachine',
    spec: {
      domain: {
        type: 'qemu',
        memory: { unit: 'MiB', value: 64 },
        vcpu: { value: 1 },
        os: { type: { os: 'hvm', arch: 'x86_64', machine: 'pc-q35-10.0' } },
      },
    },
    ...rest,
    metadata: {
      namespace: 'default',
      name: 'vm1',
      uid: 'a1b2c3d4-0000-4000-8000-000000000001',
      resourceVersion: '7',
      generation: 1,
      creationTimestamp: '2030-01-01T00:00:00Z',
      annotations: { [completedByAnnotation]: 'provenance' },
      finalizers: [launcherPodFinalizer],
      ...metadata,
    },
  }
}
