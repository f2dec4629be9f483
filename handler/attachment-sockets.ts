import type { LimitedLog } from '../runtime/limited-log.ts'
import { keyOf, type Persisted } from '../runtime/resource.ts'
import { attachmentPodsOf, type AttachmentSockets } from './attachment.ts'
import type { CachedVm } from './slim-vm.ts'

/** The pods of this node that serve claims to launchers. */
export interface ServingPods {
  /** Hands the socket of a pod to the launcher. Returns whether the launcher has it. */
  place(pods: { readonly podUID: string; readonly launcherUID: string }): Promise<boolean>
  /** Whether the node has nothing of the pod any more. */
  hasEnded(podUID: string): Promise<boolean>
}

interface Placing {
  readonly vm: Persisted<CachedVm>
  /** Of its launcher. */
  readonly podUID: string
  /** By namespace: the pods of a VM can make this fail in each round. */
  readonly limitedLog: LimitedLog
}

/** Hands the sockets of the pods that the controller has named to the launcher of the VM. */
export async function placeSockets(
  pods: ServingPods,
  { vm, podUID: launcherUID, limitedLog }: Placing,
): Promise<AttachmentSockets> {
  const placed = new Set<string>()
  const ended = new Set<string>()
  const failures = new Map<string, string>()
  for (const { podUID, missing } of attachmentPodsOf(vm)) {
    if (podUID === undefined) continue
    try {
      if (await pods.place({ podUID, launcherUID })) placed.add(podUID)
      if (missing === true && (await pods.hasEnded(podUID))) ended.add(podUID)
    } catch (error) {
      const { namespace = '' } = vm.metadata
      const line = { vm: keyOf(vm.metadata), podUID, err: error }
      limitedLog(namespace, line, 'could not hand the socket of a pod to the launcher', 'warn')
      const code = error instanceof Error && 'code' in error ? String(error.code) : 'unknown error'
      failures.set(podUID, `the handler could not move the socket of the pod to the launcher (${code})`)
    }
  }
  return { placed, ended, failures }
}
