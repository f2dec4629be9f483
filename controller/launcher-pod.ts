import {
  downloadBytes,
  filledAnnotation,
  sourceDeviceName,
  type ClaimSource,
  type ClaimVolume,
} from '../api/claim-volume.ts'
import { imageOfPod, type ImageSource } from '../api/image-source.ts'
import { requiredCpuLabels } from '../api/cpu-label.ts'
import { hugePageDemand, pageName } from '../api/huge-pages.ts'
import { cutName } from '../api/label.ts'
import { hugePagesDirectory } from '../api/launcher-directory.ts'
import { emptyDiskBytes, launcherResources, mountedIsoBytes, overlayBytes } from '../api/launcher-resources.ts'
import { memoryDemand } from '../api/launcher-memory.ts'
import { mountedSources } from '../api/mounted-source.ts'
import { longestGraceSeconds } from '../api/placement.ts'
import { quantityValue } from '../api/quantity.ts'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { Volume } from '../api/volume.ts'
import { protocolOf, type Port } from '../api/port.ts'
import { networkRef, usedTaps } from '../api/tap.ts'
import { probeNames, type Probe, type ProbeName, type Probes } from '../api/probe.ts'
import { apiVersion } from '../api/object.ts'
import { requestedGraceSeconds } from '../api/template.ts'
import type { Persisted } from '../runtime/resource.ts'
import { networksAnnotation } from './network-failure.ts'
import { copiedLabels } from './pod-labels.ts'
import type { Claim, Container, Pod } from './pod.ts'

export const vmUidLabel = 'virtset.io/vm-uid'
export const vmNameLabel = 'virtset.io/vm-name'
/** In the launcher's environment. */
export const vmUidVariable = 'VIRTSET_VM_UID'

interface LauncherOptions {
  readonly image: string
  /** Claims of the VM's volumes, by claim name. */
  readonly claims: ReadonlyMap<string, Claim>
}

/**
 * The launcher presses the power button, waits the VM's own grace period, destroys, and waits up to 15 s for the
 * handler to read the end.
 */
const graceSlackSeconds = 30
const defaultGraceSeconds = 30
/** libvirt, QEMU and the launcher run as this user of the launcher's image. */
const user = 107
const root = '/var/run/virtset'
/**
 * libvirtd's sockets and state, 10 KiB for a small VM. In memory, since a restarted libvirtd ends the guest when it
 * cannot write its state: a full disk of the node must not end VMs.
 */
const runBytes = 16n * 1024n * 1024n
/** The launcher's socket, and what the launcher and libvirt write to /tmp: the first 2 MiB of a disk, twice. */
const smallBytes = 16n * 1024n * 1024n
/**
 * libvirt's configuration and logs, what QEMU prints, and the image of a screenshot, which has at most the bytes of the
 * largest video memory. A guest can make QEMU print without end.
 */
const privateBytes = 512n * 1024n * 1024n
/** cloud-init's three files and their ISO; an object in Kubernetes is smaller. */
const seedBytes = 16n * 1024n * 1024n
/** The longest host name. */
const longestName = 63

/** The name of the one pod of this VM: it contains the VM's uid, so that a second pod cannot exist. */
export function podName(vm: Persisted<VirtualMachine>): string {
  const { name, uid } = vm.metadata
  const prefix = 'virt-launcher-'
  const suffix = `-${uid.replaceAll('-', '').slice(0, 8)}`
  return `${prefix}${cutName(name, longestName - prefix.length - suffix.length)}${suffix}`
}

/** The value of the label `virtset.io/vm-name`: the name, cut where it is too long for a label. */
export const nameLabelOf = (name: string): string => cutName(name, longestName)

/** The VM as a pod: a pure function of the VM, the launcher's image and the claims. */
export function launcherPod(vm: Persisted<VirtualMachine>, options: LauncherOptions): Pod {
  const { namespace, name, uid, labels } = vm.metadata
  const { spec } = vm
  const volumes = (spec.volumes ?? []).map((volume, index) => placed(volume, index, options.claims))
  const pageNames = pageNamesOf(vm)
  const nodeSelector = { ...spec.nodeSelector, ...requiredCpuLabels(spec.domain) }
  return {
    metadata: {
      name: podName(vm),
      ...(namespace === undefined ? {} : { namespace }),
      // Services, network policies, affinity and autoscalers select pods by the labels that users set on VMs.
      labels: { ...labels, [vmUidLabel]: uid, [vmNameLabel]: nameLabelOf(name) },
      annotations: { ...copiedLabels(vm.metadata), ...networksOf(vm) },
      ownerReferences: [{ apiVersion, kind: 'VirtualMachine', name, uid, controller: true, blockOwnerDeletion: true }],
    },
    spec: {
      restartPolicy: 'Never',
      automountServiceAccountToken: false,
      enableServiceLinks: false,
      terminationGracePeriodSeconds: podGraceSeconds(vm),
      securityContext: {
        runAsUser: user,
        runAsGroup: user,
        fsGroup: user,
        runAsNonRoot: true,
        seccompProfile: { type: 'RuntimeDefault' },
        ...(listensOnLowPort(vm) ? { sysctls: [lowPorts] } : {}),
      },
      containers: [compute(vm, options.image, volumes)],
      volumes: [
        emptyVolume('sockets', smallBytes),
        emptyVolume('private', privateBytes + dumpBytes(vm)),
        { name: 'run', emptyDir: { medium: 'Memory', sizeLimit: `${runBytes}` } },
        emptyVolume('tmp', smallBytes),
        ...pageNames.map((page) => ({ name: pageVolume(page), emptyDir: { medium: `HugePages-${page}` } })),
        ...volumes.flatMap(({ volumes: ofPod }) => ofPod),
      ],
      ...(Object.keys(nodeSelector).length > 0 ? { nodeSelector } : {}),
      ...(spec.affinity ? { affinity: spec.affinity } : {}),
      ...(spec.tolerations ? { tolerations: spec.tolerations } : {}),
      ...(spec.priorityClassName === undefined ? {} : { priorityClassName: spec.priorityClassName }),
      ...(spec.imagePullSecrets ? { imagePullSecrets: spec.imagePullSecrets } : {}),
      ...(spec.resourceClaims ? { resourceClaims: spec.resourceClaims } : {}),
    },
  }
}

/**
 * The annotation with the networks of the taps. The annotations of the VM are not those of its pod, so its user states
 * nothing else to Multus. In JSON, no name has another meaning, as it has in the list of names that Multus accepts too.
 */
function networksOf({ metadata, spec }: VirtualMachine): Readonly<Record<string, string>> {
  const networks = usedTaps(spec).flatMap(({ network, podInterface, mac }) => {
    if (network === undefined) return []
    return [{ ...networkRef(network, metadata.namespace), interface: podInterface, mac }]
  })
  return networks.length === 0 ? {} : { [networksAnnotation]: JSON.stringify(networks) }
}

/** On the disk of the node. Beyond its limit, the kubelet evicts the pod. */
const emptyVolume = (name: string, bytes: bigint) => ({ name, emptyDir: { sizeLimit: `${bytes}` } })

/** libvirt dumps the memory of a guest into its directory for configuration. There is room for one dump. */
function dumpBytes({ spec: { domain } }: VirtualMachine): bigint {
  const isDumped =
    domain.onCrash?.startsWith('coredump') === true ||
    (domain.devices?.watchdogs ?? []).some(({ action }) => action === 'dump')
  return isDumped ? memoryDemand(domain).guest : 0n
}

/** How long the kubelet waits before it kills: the VM's own grace period and what the launcher does around it. */
export function podGraceSeconds(vm: VirtualMachine): number {
  const requested = requestedGraceSeconds(vm)
  return requested === undefined ? ownPodGraceSeconds(vm) : requested + graceSlackSeconds
}

/** The longest that the kubelet may wait: a stop that requests less does not shorten what the pod was deleted with. */
export function longestPodGraceSeconds(vm: VirtualMachine): number {
  return Math.max(ownPodGraceSeconds(vm), vm.status?.podGracePeriodSeconds ?? 0, boundedPodGrace(podGraceSeconds(vm)))
}

/**
 * `status.podGracePeriodSeconds` of a VM whose pod is or will be deleted with this grace period; undefined if that does
 * not change. Most VMs need none, and so no update.
 */
export function longerPodGraceSeconds(vm: VirtualMachine, graceSeconds: number): number | undefined {
  const seconds = boundedPodGrace(graceSeconds)
  return seconds > Math.max(ownPodGraceSeconds(vm), vm.status?.podGracePeriodSeconds ?? 0) ? seconds : undefined
}

/** That of the pod's spec. */
const ownPodGraceSeconds = ({ spec }: VirtualMachine): number =>
  (spec.terminationGracePeriodSeconds ?? defaultGraceSeconds) + graceSlackSeconds

/** Whoever may delete pods chooses a grace period without a limit. */
const boundedPodGrace = (seconds: number): number => Math.min(seconds, longestGraceSeconds + graceSlackSeconds)

/**
 * The claims that must be known before the pod is created: a block volume is attached to a pod in another way than a
 * file system.
 */
export function claimsOf({ spec }: VirtualMachine): readonly string[] {
  const names = (spec.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) => (claim ? [claim.claimName] : []))
  return [...new Set(names)]
}

/** The claims that others of the VM are filled from, which must be known too. */
export function sourceClaimsOf({ spec }: VirtualMachine, claims: ReadonlyMap<string, Claim>): readonly string[] {
  const names = (spec.volumes ?? []).flatMap(({ persistentVolumeClaim: claim }) => {
    const source = claim && sourceToMount(claim, claims)
    return source?.claim === undefined ? [] : [source.claim.claimName]
  })
  return [...new Set(names)]
}

/** The source of a claim that has not been filled yet: afterwards, the VM starts without it. */
const sourceToMount = (
  { claimName, source }: ClaimVolume,
  claims: ReadonlyMap<string, Claim>,
): ClaimSource | undefined =>
  claims.get(claimName)?.metadata.annotations?.[filledAnnotation] === undefined ? source : undefined

function compute(vm: Persisted<VirtualMachine>, image: string, volumes: readonly Placed[]): Container {
  const { ports = [] } = vm.spec
  return {
    name: 'compute',
    image,
    imagePullPolicy: 'IfNotPresent',
    terminationMessagePolicy: 'FallbackToLogsOnError',
    ...(ports.length === 0 ? {} : { ports: ports.map(containerPort) }),
    ...probesOf(vm.spec),
    env: [{ name: vmUidVariable, value: vm.metadata.uid }],
    resources: launcherResources(vm.spec),
    securityContext: {
      allowPrivilegeEscalation: false,
      capabilities: { drop: ['ALL'] },
      readOnlyRootFilesystem: true,
    },
    volumeMounts: [
      { name: 'sockets', mountPath: `${root}/sockets` },
      { name: 'private', mountPath: `${root}/private` },
      { name: 'run', mountPath: `${root}/private/run` },
      { name: 'tmp', mountPath: '/tmp' },
      // libvirt locks the terminal of an open console there.
      { name: 'tmp', mountPath: '/run/lock' },
      ...pageNamesOf(vm).map((page) => ({ name: pageVolume(page), mountPath: `${hugePagesDirectory}/${page}` })),
      ...volumes.flatMap(({ mounts }) => mounts ?? []),
    ],
    volumeDevices: volumes.flatMap(({ devices }) => devices ?? []),
  }
}

/**
 * The kubelet runs a command in the pod, where this program of the launcher's image asks the launcher to run that of the
 * probe in the guest.
 */
const guestProbe = '/usr/local/bin/guest-probe'
/** The launcher ends the wait, since the kubelet would only report that its own command did not end. */
const execSlackSeconds = 2

function probesOf(probes: Probes): Probes {
  const inPod = (name: ProbeName, { exec, httpGet, ...rest }: Probe): Probe => {
    // The API server replaces an empty path, and the pod that it stores is compared with this one.
    if (httpGet !== undefined) return { ...rest, httpGet: httpGet.path === '' ? { ...httpGet, path: '/' } : httpGet }
    if (exec === undefined) return rest
    const timeoutSeconds = (rest.timeoutSeconds ?? 1) + execSlackSeconds
    return { ...rest, exec: { command: [guestProbe, name] }, timeoutSeconds: Math.min(timeoutSeconds, 2 ** 31 - 1) }
  }
  return Object.fromEntries(
    probeNames.flatMap((name) => (probes[name] === undefined ? [] : [[name, inPod(name, probes[name])]])),
  )
}

/** A file system of huge pages has one size of page. The launcher names them to libvirtd. */
const pageNamesOf = ({ spec }: VirtualMachine): string[] => [...hugePageDemand(spec.domain).keys()].map(pageName)

/** The names of volumes are in lower case. */
const pageVolume = (page: string): string => `hugepages-${page.toLowerCase()}`

/**
 * Allows passt, and the launcher's DHCP server, to listen on ports below 1024. A safe sysctl, which Pod Security admits;
 * containerd 2 sets it itself.
 */
const lowPorts = { name: 'net.ipv4.ip_unprivileged_port_start', value: '0' }

const listensOnLowPort = ({ spec }: VirtualMachine): boolean =>
  usedTaps(spec).length > 0 ||
  (spec.domain.devices?.interfaces ?? []).some(({ portForwards = [] }) =>
    portForwards.some(({ ranges = [] }) => ranges.some(({ start }) => Number(start) < 1024)),
  )

/** Connections to the address of the pod reach the guest, so the guest's ports are the container's. */
const containerPort = (one: Port) => ({ name: one.name, containerPort: one.port, protocol: protocolOf(one) })

/** A volume of the VM in the pod, and where the launcher finds it. */
interface Placed {
  readonly volumes: Pod['spec']['volumes']
  readonly mounts?: Container['volumeMounts']
  readonly devices?: Container['volumeDevices']
}

/** The names are of the volume's index, since its own name can be as long as the name of a pod's volume. */
function placed(volume: Volume, index: number, claims: ReadonlyMap<string, Claim>): Placed {
  const name = `volume-${index}`
  const mount = { name, mountPath: `${root}/volumes/${volume.name}` }
  if (volume.emptyDisk) return { volumes: [emptyVolume(name, emptyDiskBytes(volume.emptyDisk))], mounts: [mount] }
  const sources = mountedSources(volume)
  if (sources.length > 0) {
    const mounted = { name: `source-${index}`, mountPath: `${root}/sources/${volume.name}`, readOnly: true }
    return {
      // In memory, like the kubelet's own files: a Secret is not written to the disk of the node.
      volumes: [
        { name, emptyDir: { medium: 'Memory', sizeLimit: `${mountedIsoBytes}` } },
        { name: mounted.name, projected: { defaultMode: 0o440, sources } },
      ],
      mounts: [mount, mounted],
    }
  }
  if (volume.cloudInit) return { volumes: [emptyVolume(name, seedBytes)], mounts: [mount] }
  if (volume.image) {
    const image = mountedImage(volume.name, index, volume.image)
    return {
      volumes: [emptyVolume(name, overlayBytes(volume.image)), ...image.volumes],
      mounts: [mount, ...image.mounts],
    }
  }
  if (!volume.persistentVolumeClaim) throw new Error(`volume ${volume.name} of a completed VM is of an unknown kind`)
  const { claimName, readOnly = false } = volume.persistentVolumeClaim
  const inPod = { name, persistentVolumeClaim: { claimName, ...(readOnly ? { readOnly } : {}) } }
  const claim = claims.get(claimName)
  const from = sourceToMount(volume.persistentVolumeClaim, claims)
  const source = placedSource(volume.name, index, from, claims, claim)
  const inFilled = { volumes: [inPod, ...source.volumes], devices: source.devices ?? [], mounts: source.mounts ?? [] }
  if (isBlock(claim)) {
    return { ...inFilled, devices: [{ name, devicePath: `${root}/block/${volume.name}` }, ...inFilled.devices] }
  }
  return { ...inFilled, mounts: [{ ...mount, ...(readOnly ? { readOnly } : {}) }, ...inFilled.mounts] }
}

const isBlock = (claim: Claim | undefined): boolean => claim?.spec?.volumeMode === 'Block'

/** What a claim has or, before it is bound, what it requests. */
const bytesOf = (claim: Claim | undefined): bigint =>
  quantityValue(claim?.status?.capacity?.storage ?? claim?.spec?.resources?.requests?.storage ?? '') ?? 0n

function mountedImage(volume: string, index: number, image: ImageSource) {
  const mounted = { name: `image-${index}`, mountPath: `${root}/images/${volume}`, readOnly: true }
  return { volumes: [{ name: mounted.name, image: imageOfPod(image) }], mounts: [mounted] }
}

/** What a claim is filled from, read-only, or a directory to download it to. */
function placedSource(
  volume: string,
  index: number,
  { image, claim, http }: ClaimSource = {},
  claims: ReadonlyMap<string, Claim>,
  filled: Claim | undefined,
): Placed {
  if (image !== undefined) return mountedImage(volume, index, image)
  const name = `source-${index}`
  // A block volume has no room for a file. Without this directory, the launcher does not download it.
  if (http !== undefined) {
    return {
      volumes: [emptyVolume(name, isBlock(filled) ? downloadBytes(bytesOf(filled)) : smallBytes)],
      mounts: [{ name, mountPath: `${root}/sources/${volume}` }],
    }
  }
  if (claim === undefined) return { volumes: [] }
  const volumes = [{ name, persistentVolumeClaim: { claimName: claim.claimName, readOnly: true } }]
  return isBlock(claims.get(claim.claimName))
    ? { volumes, devices: [{ name, devicePath: `${root}/block/${sourceDeviceName(volume)}` }] }
    : { volumes, mounts: [{ name, mountPath: `${root}/sources/${volume}`, readOnly: true }] }
}
