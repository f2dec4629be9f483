import { attachedVolumeStatuses, attachmentPods } from './attached-volume.ts'
import { configPhases } from './config.ts'
import { defaultMaxItems } from './domain/limits.ts'
import { guestIPs, guestStatus } from './guest.ts'
import { snapshotPhases } from './snapshot.ts'
import { freezeStates, phases } from './virtual-machine.ts'
import { longestStatusMessage } from './object.ts'
import { boolean, closed, integer, list, opaque, string } from './schema.ts'
import type { Schema } from './schema.ts'

/**
 * The schemas of `status`. Only virtset writes it, so the API server prunes fields that are not listed here. What the
 * controller caches of it is bounded: a node writes the statuses of its VMs.
 */

const time = (description: string) => string(description, { format: 'date-time' })

/** The API server adds this status when it reads an object that no controller has processed yet. */
const withDefault = (value: { readonly phase: string }, schema: Schema): Schema => ({ ...schema, default: value })

const text = (description: string) => string(description, { maxLength: 1024 })

/** Of version 6, with one of version 4 in its last part: none is longer. */
const ip = (description: string) => string(description, { maxLength: 45 })

/** Bytes are never fewer than the characters that the API server counts. */
const message = (description: string) => string(description, { maxLength: longestStatusMessage })

const observedGeneration = integer('The metadata.generation that this status describes.', { format: 'int64' })

const conditions = list(
  'The observed conditions of the object.',
  closed(
    'A condition.',
    {
      type: string('The kind of condition.', { minLength: 1, maxLength: 316 }),
      status: string('True, False or Unknown.', { enum: ['True', 'False', 'Unknown'] }),
      reason: string('The reason, in one word.', { minLength: 1, maxLength: 1024 }),
      message: message('The reason, in a sentence.'),
      observedGeneration,
      lastTransitionTime: time('When status last changed.'),
    },
    ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'], maxItems: 16 },
)

const phase = (description: string) => string(description, { enum: [...phases] })

export const virtualMachineStatusSchema = withDefault(
  { phase: 'Pending' },
  closed('The state of the VM, as its controller and its node observe it.', {
    observedGeneration,
    phase: phase('The phase of the VM.'),
    reason: text('Why the VM is in this phase, in one word.'),
    message: message('Why the VM is in this phase, in a sentence.'),
    nodeName: text('The node that the VM runs on.'),
    podUID: text('The UID of the launcher pod. A VM never has a second one, unless the kubelet rejected the first.'),
    podGracePeriodSeconds: integer(
      'The longest grace period with which the launcher pod was deleted, in seconds, if it is longer than that of its spec. After a forced deletion, what is left of the pod has as much time, even if a later stop requested less.',
      { minimum: 0, format: 'int64' },
    ),
    podIP: ip('The first IP address of the launcher pod, and of a guest that has the addresses of its pod.'),
    podIPs: list(
      'The IP addresses of the launcher pod: one of each family.',
      closed('An address.', { ip: ip('An IP address.') }, ['ip']),
      { 'x-kubernetes-list-type': 'atomic', maxItems: 16 },
    ),
    // Else managedFields would list each of its fields, which takes 2 KB of each VM and of each event of a watch.
    domain: {
      ...opaque(
        'The live domain as libvirt describes it, addresses included; fields as in spec: kubectl explain vm.spec.domain',
      ),
      'x-kubernetes-map-type': 'atomic',
    },
    interfaces: list(
      'The network interfaces of the guest.',
      closed('An interface.', {
        name: text('Its alias.'),
        mac: text('Its MAC address as the guest sees it.'),
        network: text(
          'The network that it is connected to, as NAMESPACE/NAME of a NetworkAttachmentDefinition. That of the pod if absent.',
        ),
        podInterface: text('The interface of the launcher pod whose network it shares.'),
        ips: list('The IP addresses at which others reach the guest.', ip('An IP address.'), {
          'x-kubernetes-list-type': 'atomic',
          maxItems: 16,
        }),
        guestIPs,
        infoSource: list('Who reported it: domain is libvirt, guest-agent the guest.', string('A source.'), {
          'x-kubernetes-list-type': 'atomic',
        }),
      }),
      { 'x-kubernetes-list-type': 'atomic', maxItems: defaultMaxItems },
    ),
    guest: guestStatus,
    freeze: closed(
      'A request to freeze the file systems of the guest while a VirtualMachineSnapshot is taken.',
      {
        id: text('The UID of the VirtualMachineSnapshot.'),
        thaw: boolean('Whether the guest can continue to write.'),
      },
      ['id'],
    ),
    frozen: closed(
      'What the launcher has made of that request.',
      {
        id: text('The UID of the VirtualMachineSnapshot.'),
        state: string('Expired: the guest did not stay frozen until the request to thaw.', { enum: [...freezeStates] }),
        message: message('The reason for a failure, in a sentence.'),
      },
      ['id', 'state'],
    ),
    attachedVolumes: attachedVolumeStatuses,
    attachmentPods,
    phaseTransitionTimestamps: list(
      'When each phase was entered.',
      closed('A phase and its time.', { phase: phase('The phase.'), time: time('When it was entered.') }, [
        'phase',
        'time',
      ]),
      { 'x-kubernetes-list-type': 'atomic', maxItems: 64 },
    ),
    presets: string('The presets that were applied to the spec.'),
    machine: string('The machine type.'),
    memory: string('The memory of the guest.'),
    cpus: integer('The virtual CPUs of the guest.', { format: 'int32' }),
    conditions,
  }),
)

const count = (description: string) => integer(description, { minimum: 0, format: 'int32' })

export const presetStatusSchema = closed('The use of the preset, as the controller observes it.', {
  observedGeneration,
  revision: text('The hash of the content. The provenance of a VM refers to it.'),
  matched: count('VMs that the preset selects now.'),
  applied: count('VMs that were completed with the preset.'),
  outdated: count('VMs that were completed with an older revision.'),
  conditions,
})

export const objectPresetStatusSchema = closed('The state of the preset, as the webhooks observe it.', {
  observedGeneration,
  revision: text('The hash of the content. The provenance of an object refers to it.'),
  conditions,
})

export const presetTargetStatusSchema = closed('The state of the target, as the webhooks observe it.', {
  observedGeneration,
  conditions,
})

export const configStatusSchema = withDefault(
  { phase: 'Stopped' },
  closed('The state of the config, as the controller observes it.', {
    observedGeneration,
    phase: string('Whether the VM is stopped, running, or in between.', { enum: [...configPhases] }),
    instance: closed(
      'The VM of the config; absent while it is stopped.',
      {
        name: text('The name, which is the name of the config.'),
        uid: text('The UID.'),
        nodeName: text('The node it runs on.'),
      },
      ['name', 'uid'],
    ),
    outdated: boolean('Whether the VM was created from an older template. A restart applies the current one.'),
    restart: closed(
      'A restart in progress: another VM replaces this one.',
      {
        uid: text('The UID of the VM to replace.'),
        requestedAt: time('When the restart was requested.'),
        gracePeriodSeconds: integer('Seconds the guest has to power off.', { minimum: 0, format: 'int64' }),
        cancelled: boolean('Whether a later stop cancelled the restart, so that no VM remains.'),
      },
      ['uid', 'requestedAt'],
    ),
    conditions,
  }),
)

export const groupStatusSchema = closed('The number of VMs, as the controller observes it.', {
  observedGeneration,
  replicas: count('VMs that exist and are not finished. Terminating VMs count until they are gone.'),
  readyReplicas: count('VMs whose guest is running.'),
  availableReplicas: count('Equal to readyReplicas; there is no minReadySeconds.'),
  outdatedReplicas: count('VMs that were created from an older template.'),
  succeeded: count('The total number of VMs whose guest powered off.'),
  failed: count('The total number of VMs that failed.'),
  disrupted: count('The total number of VMs that ended for a reason outside of their guest, such as a drain.'),
  countedUids: list('UIDs of finished VMs that are already counted and may still exist.', string('A UID.'), {
    'x-kubernetes-list-type': 'set',
  }),
  selector: string('The selector as text, for the scale subresource.'),
  conditions,
})

export const snapshotStatusSchema = withDefault(
  { phase: 'Pending' },
  closed('The state of the snapshot, as the controller observes it.', {
    observedGeneration,
    phase: string('Pending, InProgress, Ready or Failed.', { enum: [...snapshotPhases] }),
    sourceUID: string('The UID of the VM, or of the config if it had no VM.'),
    volumes: list(
      'The volumes in the snapshot.',
      closed(
        'A volume of the VM, and the VolumeSnapshot of its claim.',
        {
          name: string('The name of the volume.'),
          claimName: string('The PersistentVolumeClaim.'),
          volumeSnapshotName: string('The VolumeSnapshot.'),
        },
        ['name', 'claimName', 'volumeSnapshotName'],
      ),
      { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['name'] },
    ),
    excludedVolumes: list('Volumes of the VM that are not on a claim.', string('The name of a volume.'), {
      'x-kubernetes-list-type': 'set',
    }),
    unfrozenVolumes: list(
      'Volumes that the freezing of the guest does not cover, as far as it is known.',
      string('The name of a volume.'),
      { 'x-kubernetes-list-type': 'set' },
    ),
    creationTime: time('When the last VolumeSnapshot was taken.'),
    conditions,
  }),
)
