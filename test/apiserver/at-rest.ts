import { randomUUID } from 'node:crypto'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { podName, vmUidLabel, vmUidVariable } from '../../controller/launcher-pod.ts'
import type { Pod } from '../../controller/pod.ts'
import type { Persisted } from '../../runtime/resource.ts'

/** A VM as controller and handler leave it, and its pod. */
export interface RunningVm {
  readonly vm: Persisted<VirtualMachine>
  readonly pod: Persisted<Pod>
}

/** Another VM of the same kind, and its pod, to be written to etcd. */
export function copyOf(
  { vm, pod }: RunningVm,
  name: string,
  namespace = vm.metadata.namespace ?? 'default',
): RunningVm {
  const uid = randomUUID()
  const podUID = randomUUID()
  const metadata = { ...vm.metadata, namespace, name, uid }
  const [compute] = pod.spec.containers
  if (compute === undefined) throw new Error('a launcher pod has a container')
  return {
    vm: { ...vm, metadata, status: { ...vm.status, podUID } },
    pod: {
      ...pod,
      metadata: {
        ...pod.metadata,
        namespace,
        name: podName({ ...vm, metadata }),
        uid: podUID,
        labels: { ...pod.metadata.labels, [vmUidLabel]: uid },
        ownerReferences: (pod.metadata.ownerReferences ?? []).map((owner) => ({ ...owner, name, uid })),
      },
      spec: { ...pod.spec, containers: [{ ...compute, env: [{ name: vmUidVariable, value: uid }] }] },
    },
  }
}
