import { createHash } from 'node:crypto'
import type { Cause } from './cause.ts'
import { invalidValue } from './field-error.ts'
import { dnsLabelRule, dnsSubdomainRule, isDnsLabel, isDnsSubdomain } from './label.ts'
import { boolean, closed, list, open, string, type SchemasOf } from './schema.ts'

/** A claim that a guest gets as a disk while it runs. */
export interface AttachedVolume {
  /** Unique among these and `volumes`. */
  readonly name: string
  readonly persistentVolumeClaim: AttachedClaim
  /** Complete in a stored VM. */
  readonly target?: AttachedTarget
  readonly serial?: string
}

export interface AttachedClaim {
  readonly claimName: string
  readonly readOnly?: boolean
}

/** The name and the bus of the disk, in libvirt's terms. */
export interface AttachedTarget {
  readonly dev?: string
  readonly bus?: string
}

export const attachedPhases = ['Attaching', 'Attached', 'Detaching', 'Failed'] as const
export type AttachedPhase = (typeof attachedPhases)[number]

/** What the handler reports of an attached volume. */
export interface AttachedVolumeStatus {
  readonly name: string
  readonly claimName: string
  readonly phase: AttachedPhase
  readonly reason?: string
  readonly message?: string
  readonly target?: AttachedTarget
  /** The UID of a pod of `attachmentPods` that is missing, once its containers have ended on the node. */
  readonly endedPodUID?: string
}

/** A pod that serves a claim to the launcher, and what the controller knows of it. */
export interface AttachmentPod {
  /** That of the attached volume. */
  readonly name: string
  readonly claimName: string
  readonly readOnly?: boolean
  readonly podName: string
  /** Absent until the pod has a node: a pod without one does not keep its claim from being deleted. */
  readonly podUID?: string
  /** That of the claim which the last pod with a UID serves, or served. The guest has no disk of another claim. */
  readonly claimUID?: string
  /** Whether the pod no longer exists, and its containers can still run. */
  readonly missing?: boolean
  readonly reason?: string
  readonly message?: string
}

/** The aliases of attached disks begin like this, and those of no other device. */
export const attachedAliasPrefix = 'ua-attached-'

/** Characters of the serial number of a disk that virtio transmits. */
export const longestVirtioSerial = 20

/** The serial number of the disk: by default its name, or of a longer one than virtio transmits, a hash. */
export const serialOf = ({ name, serial }: Pick<AttachedVolume, 'name' | 'serial'>): string =>
  serial ??
  (name.length <= longestVirtioSerial
    ? name
    : createHash('sha256').update(name).digest('hex').slice(0, longestVirtioSerial))

/** A VM can have as many. */
export const mostAttached = 16
/** Of the status: those that are being detached are not in the spec any more. */
export const mostReported = 2 * mostAttached
/** In bytes of UTF-8. A status can have 64 of them. */
export const longestAttachmentMessage = 1024

const asMap = { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] } as const

export const attachedVolumes = list(
  'Claims that the guest gets as disks while it runs. Items can be added and removed as long as the VM exists; everything else of the spec is immutable.',
  open(
    'A claim that is a disk of the running guest.',
    {
      name: string('The unique name, which no volume in `volumes` has.', { minLength: 1, maxLength: 63 }),
      persistentVolumeClaim: open(
        'A claim of the namespace that no other volume of the VM uses. A claim of volume mode Filesystem has its disk in the file disk.img, which is created if the claim is empty.',
        {
          claimName: string('The name of the claim.', { minLength: 1, maxLength: 253 }),
          readOnly: boolean('Whether the guest can only read the disk.'),
        } satisfies SchemasOf<AttachedClaim>,
        ['claimName'],
      ),
      target: open('Where the guest sees the disk.', {
        dev: string('vd or sd and letters, such as `vdb`; the next free name of the bus if absent.', {
          pattern: '^[a-z]{3,5}$',
        }),
        bus: string('`virtio` or `scsi`. If absent: that of `dev`, or virtio.', { minLength: 1, maxLength: 16 }),
      } satisfies SchemasOf<AttachedTarget>),
      serial: string(
        'The serial number of the disk, by which the guest can find it. By default, the name if it has at most 20 characters.',
        {
          pattern: '^[A-Za-z0-9_.+-]{1,36}$',
        },
      ),
    } satisfies SchemasOf<AttachedVolume>,
    ['name', 'persistentVolumeClaim'],
  ),
  { ...asMap, maxItems: mostAttached },
)

/** What to do instead of setting fields that a claim has only among `volumes`. */
const instead: Readonly<Record<string, string>> = {
  source:
    'an attached claim is not filled; fill it first, as a volume of a VM with `source`, or create it from a VolumeSnapshot or another claim',
  capacity: 'the disk has the size of the claim',
}
const onlyOfVolumes = /^spec\.attachedVolumes\[\d+\]\.persistentVolumeClaim\.(source|capacity)$/

/** Adds to the cause of a field that only volumes have what to do instead. */
export function explainAttached(cause: Cause): Cause {
  const [, key = ''] = onlyOfVolumes.exec(cause.field) ?? []
  const suggestion = instead[key]
  return suggestion === undefined ? cause : { ...cause, suggestion }
}

export const attachedVolumeStatuses = list(
  'The disks of `spec.attachedVolumes`, and those that are being detached.',
  closed(
    'A disk.',
    {
      name: string('The name in `spec.attachedVolumes`.', { maxLength: 253 }),
      claimName: string('The claim.', { maxLength: 253 }),
      phase: string('Detaching: it is still a disk of the guest. Failed: libvirt refused it; it is tried again.', {
        enum: [...attachedPhases],
      }),
      reason: string('Why it is not attached, or not detached, as a word in camel case.', { maxLength: 253 }),
      message: string('The same in a sentence.', { maxLength: longestAttachmentMessage }),
      target: closed('Where the guest sees it.', {
        dev: string('The name.', { maxLength: 253 }),
        bus: string('The bus.', { maxLength: 253 }),
      }),
      endedPodUID: string('The UID of a missing pod whose containers have ended.', { maxLength: 253 }),
    } satisfies SchemasOf<AttachedVolumeStatus>,
    ['name', 'claimName', 'phase'],
  ),
  { ...asMap, maxItems: mostReported },
)

export const attachmentPods = list(
  'The pods that serve the claims of `spec.attachedVolumes` to the launcher.',
  closed(
    'A pod.',
    {
      name: string('The name in `spec.attachedVolumes`.', { maxLength: 253 }),
      claimName: string('The claim that it serves.', { maxLength: 253 }),
      readOnly: boolean('Whether it only reads the claim.'),
      podName: string('Its name.', { maxLength: 253 }),
      podUID: string('Its UID, once it has a node.', { maxLength: 253 }),
      claimUID: string('The UID of the claim, once a pod that serves it had a node.', { maxLength: 253 }),
      missing: boolean('Whether it no longer exists, and its node has not confirmed that its containers have ended.'),
      reason: string('Why it does not serve the claim, as a word in camel case.', { maxLength: 253 }),
      message: string('The same in a sentence.', { maxLength: longestAttachmentMessage }),
    } satisfies SchemasOf<AttachmentPod>,
    ['name', 'claimName', 'podName'],
  ),
  { 'x-kubernetes-list-type': 'atomic', maxItems: mostReported },
)

/** Checks items that match their schema, each by itself. */
export const checkAttachedVolumes = (given: readonly AttachedVolume[], field: string): Cause[] =>
  given.flatMap(({ name, persistentVolumeClaim: { claimName } }, index) => {
    const at = `${field}[${index}]`
    return [
      ...(isDnsLabel(name) ? [] : [invalidValue('attached-volume-name', `${at}.name`, name, dnsLabelRule)]),
      ...(isDnsSubdomain(claimName)
        ? []
        : [
            invalidValue('attached-volume-claim', `${at}.persistentVolumeClaim.claimName`, claimName, dnsSubdomainRule),
          ]),
    ]
  })

/** Whether both are the same claim under the same name, used in the same way. */
export const isSameAttachment = (
  { name, persistentVolumeClaim: { claimName, readOnly = false } }: AttachedVolume,
  other: Pick<AttachmentPod, 'name' | 'claimName' | 'readOnly'>,
): boolean => name === other.name && claimName === other.claimName && readOnly === (other.readOnly ?? false)
