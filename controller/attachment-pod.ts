import { createHash } from 'node:crypto'
import type { AttachedVolume } from '../api/attached-volume.ts'
import { cutName } from '../api/label.ts'
import { apiVersion } from '../api/object.ts'
import { attachmentCommand, attachmentPaths } from '../api/attachment-path.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Persisted } from '../runtime/resource.ts'
import { podGraceSeconds } from './launcher-pod.ts'
import type { Claim, Pod } from './pod.ts'

/** On a pod that serves a claim to the launcher of the VM with this uid. */
export const attachedToLabel = 'virtset.io/attached-to'
/** In its environment, which cannot change. */
export const attachedToVariable = 'VIRTSET_ATTACHED_TO'

/** Like that of the launcher pod: QEMU in it connects to the socket of qemu-nbd. */
const user = 107
/** qemu-nbd ends when QEMU has disconnected: as late as the launcher pod, and a moment. */
const graceSlackSeconds = 30
const longestName = 63

/** qemu-nbd takes 15 MiB, and Node, which looks for the disk in the claim before, 60 MiB. */
const resources = {
  requests: { cpu: '10m', memory: '64Mi' },
  limits: { cpu: '1', memory: '256Mi' },
}

/** The name of the one pod that serves this claim to this VM, so that a second one cannot exist. */
export function attachmentPodName({ metadata: { name, uid } }: Persisted<VirtualMachine>, claimName: string): string {
  const prefix = 'virt-volume-'
  const hash = createHash('sha256').update(`${uid}/${claimName}`).digest('hex').slice(0, 10)
  return `${prefix}${cutName(name, longestName - prefix.length - hash.length - 1)}-${hash}`
}

/**
 * A pod on the node of the VM that serves a claim by NBD on a unix socket in its own volume. The scheduler places it, so
 * that it binds the claim where that waits for its first consumer.
 * @param vm whole, and on a node
 */
export function attachmentPod(
  vm: Persisted<VirtualMachine>,
  { persistentVolumeClaim: { claimName, readOnly = false } }: AttachedVolume,
  { image, claim }: { readonly image: string; readonly claim: Claim },
): Pod {
  const { namespace, name, uid } = vm.metadata
  const { tolerations = [], priorityClassName, imagePullSecrets } = vm.spec
  const isBlock = claim.spec?.volumeMode === 'Block'
  const capacity = claim.spec?.resources?.requests?.storage
  return {
    metadata: {
      name: attachmentPodName(vm, claimName),
      ...(namespace === undefined ? {} : { namespace }),
      // No labels of the VM: it must not receive the traffic for it.
      labels: { [attachedToLabel]: uid },
      ownerReferences: [{ apiVersion, kind: 'VirtualMachine', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      // The socket of a container that is started again takes the place of the first, and QEMU connects to it.
      restartPolicy: 'Always',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: podGraceSeconds(vm) + graceSlackSeconds,
      securityContext: {
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [
        {
          name: 'volume',
          image,
          command: attachmentCommand,
          imagePullPolicy: 'IfNotPresent',
          terminationMessagePolicy: 'FallbackToLogsOnError',
          env: [
            { name: attachedToVariable, value: uid },
            ...(capacity === undefined ? [] : [{ name: 'VIRTSET_CAPACITY', value: capacity }]),
            ...(readOnly ? [{ name: 'VIRTSET_READ_ONLY', value: 'yes' }] : []),
          ],
          resources,
          securityContext: {
            allowPrivilegeEscalation: false,
            capabilities: { drop: ['ALL'] },
            readOnlyRootFilesystem: true,
          },
          volumeMounts: [
            { name: 'socket', mountPath: attachmentPaths.sockets },
            { name: 'tmp', mountPath: '/tmp' },
            ...(isBlock
              ? []
              : [{ name: 'claim', mountPath: attachmentPaths.directory, ...(readOnly ? { readOnly } : {}) }]),
          ],
          volumeDevices: isBlock ? [{ name: 'claim', devicePath: attachmentPaths.device }] : [],
        },
      ],
      volumes: [
        { name: 'socket', emptyDir: { sizeLimit: '1Mi' } },
        { name: 'tmp', emptyDir: { sizeLimit: '16Mi' } },
        { name: 'claim', persistentVolumeClaim: { claimName, ...(readOnly ? { readOnly } : {}) } },
      ],
      affinity: {
        nodeAffinity: {
          requiredDuringSchedulingIgnoredDuringExecution: {
            nodeSelectorTerms: [
              { matchFields: [{ key: 'metadata.name', operator: 'In', values: [vm.status?.nodeName ?? ''] }] },
            ],
          },
        },
      },
      // The guest runs there already, so a cordoned node must take it too.
      tolerations: [
        ...tolerations,
        { key: 'node.kubernetes.io/unschedulable', operator: 'Exists', effect: 'NoSchedule' },
      ],
      ...(priorityClassName === undefined ? {} : { priorityClassName }),
      ...(imagePullSecrets === undefined ? {} : { imagePullSecrets }),
    },
  }
}
