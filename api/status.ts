import { configPhases } from './config.ts'
import { phases } from './machine.ts'
import { longestConditionMessage } from './object.ts'
import { boolean, closed, integer, list, opaque, string } from './schema.ts'

/** The schemas of `status`: virtset alone writes it, so what is not named here is dropped. */

const time = (description: string) => string(description, { format: 'date-time' })

const observedGeneration = integer('The metadata.generation that this status is about.', { format: 'int64' })

const conditions = list(
  'What is true of the object, and why.',
  closed(
    'A condition.',
    {
      type: string('What it is about.', { minLength: 1, maxLength: 316 }),
      status: string('Whether it holds.', { enum: ['True', 'False', 'Unknown'] }),
      reason: string('One word for why.', { minLength: 1, maxLength: 1024 }),
      message: string('A sentence for people.', { maxLength: longestConditionMessage }),
      observedGeneration,
      lastTransitionTime: time('When status last changed.'),
    },
    ['type', 'status', 'reason', 'message', 'lastTransitionTime'],
  ),
  { 'x-kubernetes-list-type': 'map', 'x-kubernetes-list-map-keys': ['type'] },
)

const phase = (description: string) => string(description, { enum: [...phases] })

export const machineStatusSchema = closed('What is, as the controller and the handler of the node see it.', {
  observedGeneration,
  phase: phase('Where the VM is in its life.'),
  reason: string('One word for the phase, where there is something to say.'),
  message: string('A sentence for the phase.'),
  nodeName: string('The node that the VM runs on.'),
  podUID: string('The one launcher pod that this VM ever has.'),
  podIP: string('The address of that pod.'),
  domain: opaque(
    'The live domain as libvirt describes it, addresses included; fields as in spec: kubectl explain vm.spec.domain',
  ),
  interfaces: list(
    'The network interfaces of the guest.',
    closed('An interface.', {
      name: string('Its alias.'),
      mac: string('Its MAC address as the guest sees it.'),
    }),
    { 'x-kubernetes-list-type': 'atomic' },
  ),
  phaseTransitionTimestamps: list(
    'When each phase was entered.',
    closed('A phase and its time.', { phase: phase('The phase.'), time: time('When it was entered.') }, [
      'phase',
      'time',
    ]),
    { 'x-kubernetes-list-type': 'atomic' },
  ),
  presets: string('The presets that took part in completing the spec.'),
  machine: string('The machine type.'),
  memory: string('The memory of the guest.'),
  cpus: integer('The virtual CPUs of the guest.', { format: 'int32' }),
  conditions,
})

const count = (description: string) => integer(description, { minimum: 0, format: 'int32' })

export const presetStatusSchema = closed('What became of the preset, as the controller sees it.', {
  observedGeneration,
  revision: string('The hash of its content; the provenance of a VM names it.'),
  matched: count('VMs that it selects now.'),
  applied: count('VMs that were completed with it.'),
  outdated: count('VMs that were completed with an older revision.'),
  conditions,
})

export const configStatusSchema = closed('What is, as the controller sees it.', {
  observedGeneration,
  phase: string('Whether the machine is off, on, or between.', { enum: [...configPhases] }),
  instance: closed(
    'The VM, while there is one.',
    {
      name: string('Its name: that of the config.'),
      uid: string('Its identity.'),
      nodeName: string('The node that it runs on.'),
    },
    ['name', 'uid'],
  ),
  outdated: boolean('Whether the VM was made of another template than there is now; restart brings the new one.'),
  restart: closed(
    'A restart that is under way: another VM is to take the place of this one.',
    {
      uid: string('The identity of the VM that goes.'),
      requestedAt: time('When it was asked for.'),
      gracePeriodSeconds: integer('Seconds that its guest has to power off.', { minimum: 0, format: 'int64' }),
      calledOff: boolean('Whether it was stopped since: then no VM is to be there in the end.'),
    },
    ['uid', 'requestedAt'],
  ),
  conditions,
})

export const groupStatusSchema = closed('How many there are, as the controller sees it.', {
  observedGeneration,
  replicas: count('VMs that are there and not finished; those that are ending count until they are gone.'),
  readyReplicas: count('VMs whose guest runs.'),
  availableReplicas: count('The same: there is no minReadySeconds.'),
  outdatedReplicas: count('VMs that were made of another template than there is now.'),
  succeeded: count('VMs whose guest ended by itself, ever.'),
  failed: count('VMs that failed, ever.'),
  counted: list('Finished VMs that are counted already and may still be there, by identity.', string('A uid.'), {
    'x-kubernetes-list-type': 'set',
  }),
  selector: string('The selector as text, for the scale sub-resource.'),
  conditions,
})
