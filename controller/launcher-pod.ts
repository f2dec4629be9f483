import { launcherResources } from '../api/launcher-resources.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Volume } from '../api/volume.ts'
import { apiVersion } from '../api/object.ts'
import { quantityValue } from '../api/quantity.ts'
import { askedGraceSeconds } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'
import type { Claim, Container, Pod } from './pod.ts'

export const vmUidLabel = 'virtset.io/vm-uid'
export const vmNameLabel = 'virtset.io/vm-name'

export interface LauncherOptions {
  readonly image: string
  /** Claims of the VM's volumes, by claim name. */
  readonly claims: ReadonlyMap<string, Claim>
}

/** The launcher asks the guest, waits the VM's own grace period, destroys, and waits up to 15 s for the handler to read the end. */
const graceSlackSeconds = 30
const defaultGraceSeconds = 30
/** libvirt, QEMU and the launcher run as this user of the launcher's image. */
const user = 107
const root = '/var/run/virtset'
/** Room for the file system's own use around the disk's file. */
const diskSlackBytes = 16n * 1024n * 1024n
/** cloud-init's three files and the ISO made of them; an object in Kubernetes is smaller. */
const seedBytes = 16n * 1024n * 1024n
/** The longest name of which a host name can be made. */
const longestName = 63

/** The pod of this VM, and of no other: fixed by the VM's uid, so that a second one cannot come to be. */
export function podName(machine: Persisted<VirtualMachine>): string {
  const { name, uid } = machine.metadata
  const prefix = 'virt-launcher-'
  const suffix = `-${uid.replaceAll('-', '').slice(0, 8)}`
  return `${prefix}${cut(name, longestName - prefix.length - suffix.length)}${suffix}`
}

/** The VM as a pod: a pure function of the VM, the launcher's image and the claims. */
export function launcherPod(machine: Persisted<VirtualMachine>, options: LauncherOptions): Pod {
  const { namespace, name, uid, labels } = machine.metadata
  const { spec } = machine
  const volumes = (spec.volumes ?? []).map((volume, index) => placed(volume, `volume-${index}`, options.claims))
  return {
    metadata: {
      name: podName(machine),
      ...(namespace === undefined ? {} : { namespace }),
      // Services, network policies, affinity and autoscalers select pods, by what their users wrote at VMs.
      labels: { ...labels, [vmUidLabel]: uid, [vmNameLabel]: cut(name, longestName) },
      ownerReferences: [{ apiVersion, kind: 'VirtualMachine', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: podGraceSeconds(machine),
      securityContext: {
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
      },
      containers: [compute(machine, options.image, volumes)],
      volumes: [
        { name: 'sockets', emptyDir: {} },
        { name: 'private', emptyDir: {} },
        { name: 'tmp', emptyDir: {} },
        ...volumes.map(({ volume }) => volume),
      ],
      ...(spec.nodeSelector ? { nodeSelector: spec.nodeSelector } : {}),
      ...(spec.affinity ? { affinity: spec.affinity } : {}),
      ...(spec.tolerations ? { tolerations: spec.tolerations } : {}),
      ...(spec.priorityClassName === undefined ? {} : { priorityClassName: spec.priorityClassName }),
    },
  }
}

/** How long the kubelet waits before it kills: the VM's own grace period and what the launcher does around it. */
export function podGraceSeconds(machine: VirtualMachine): number {
  const { terminationGracePeriodSeconds: own = defaultGraceSeconds } = machine.spec
  return (askedGraceSeconds(machine) ?? own) + graceSlackSeconds
}

/** The claims without which the pod cannot be made: a block claim is put into a pod in another way than a file system. */
export function claimsOf({ spec }: VirtualMachine): readonly string[] {
  const names = (spec.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) => (claim ? [claim.claimName] : []))
  return [...new Set(names)]
}

function compute(machine: Persisted<VirtualMachine>, image: string, volumes: readonly Placed[]): Container {
  return {
    name: 'compute',
    image,
    imagePullPolicy: 'IfNotPresent',
    env: [{ name: 'VIRTSET_VM_UID', value: machine.metadata.uid }],
    resources: launcherResources(machine.spec.domain),
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      readOnlyRootFilesystem: true,
    },
    volumeMounts: [
      { name: 'sockets', mountPath: `${root}/sockets` },
      { name: 'private', mountPath: `${root}/private` },
      { name: 'tmp', mountPath: '/tmp' },
      // libvirt locks the terminal of a console there while somebody has it open.
      { name: 'tmp', mountPath: '/run/lock' },
      ...volumes.flatMap(({ mount }) => (mount ? [mount] : [])),
    ],
    volumeDevices: volumes.flatMap(({ device }) => (device ? [device] : [])),
  }
}

/** A volume of the VM in the pod, and where the launcher finds it. */
interface Placed {
  readonly volume: Pod['spec']['volumes'][number]
  readonly mount?: Container['volumeMounts'][number]
  readonly device?: Container['volumeDevices'][number]
}

/** `name` is by the volume's place, since its own name may be as long as a pod's volume may have. */
function placed(volume: Volume, name: string, claims: ReadonlyMap<string, Claim>): Placed {
  const mount = { name, mountPath: `${root}/volumes/${volume.name}` }
  if (volume.emptyDisk) {
    const bytes = (quantityValue(volume.emptyDisk.capacity) ?? 0n) + diskSlackBytes
    return { volume: { name, emptyDir: { sizeLimit: `${bytes}` } }, mount }
  }
  if (volume.cloudInit) return { volume: { name, emptyDir: { sizeLimit: `${seedBytes}` } }, mount }
  if (!volume.persistentVolumeClaim) throw new Error(`volume ${volume.name} of a completed VM is of no kind`)
  const { claimName, readOnly = false } = volume.persistentVolumeClaim
  const inPod = { name, persistentVolumeClaim: { claimName, ...(readOnly ? { readOnly } : {}) } }
  if (claims.get(claimName)?.spec?.volumeMode === 'Block') {
    return { volume: inPod, device: { name, devicePath: `${root}/block/${volume.name}` } }
  }
  return { volume: inPod, mount: { ...mount, ...(readOnly ? { readOnly } : {}) } }
}

/** The first `length` characters, and no punctuation at the end: a label's value and a host name allow none. */
function cut(name: string, length: number): string {
  return name.slice(0, length).replace(/[-._]+$/, '')
}
