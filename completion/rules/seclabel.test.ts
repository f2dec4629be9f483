import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

type Label = NonNullable<Domain['seclabels']>[number]

const labelled = (...seclabels: Label[]): Domain => ({ seclabels })

const selinux = (more: Label = {}): Label => ({ model: 'selinux', type: 'static', label: 'a', ...more })

testRule('seclabel-unique', [
  {
    refused: labelled(selinux(), selinux()),
    causes: [
      'spec.domain.seclabels[1].model: Duplicate value: "selinux": already has a label in another item of seclabels',
    ],
    accepted: labelled(selinux(), selinux({ model: 'apparmor' })),
  },
  {
    refused: labelled({ type: 'static', label: 'a' }),
    causes: ['spec.domain.seclabels[0].model: Required value: must be set: the security module; e.g. selinux'],
    accepted: labelled({ type: 'dynamic' }),
  },
  {
    refused: labelled({ type: 'static', label: 'a' }),
    causes: ['spec.domain.seclabels[0].model: Required value: must be set: the security module; e.g. selinux'],
    accepted: labelled({ type: 'none' }),
  },
  {
    refused: labelled({ model: 'selinux', type: 'dynamic', relabel: false }),
    causes: [
      'spec.domain.seclabels[0].relabel: Invalid value: false: must be true for type dynamic, which labels all resources',
    ],
    accepted: labelled({ model: 'selinux', type: 'dynamic', relabel: true }),
  },
  {
    refused: labelled({ model: 'selinux', type: 'none', relabel: true }),
    causes: ['spec.domain.seclabels[0].relabel: Invalid value: true: must be false for type none, which has no label'],
    accepted: labelled({ model: 'selinux', type: 'none', relabel: false }),
  },
  {
    refused: labelled({ model: 'selinux', type: 'static' }),
    causes: ['spec.domain.seclabels[0].label: Required value: must be set for type static'],
    accepted: labelled(selinux()),
  },
  {
    refused: labelled({ model: 'dac', type: 'static' }),
    causes: ['spec.domain.seclabels[0].label: Required value: must be set for type static'],
    accepted: labelled({ model: 'none', type: 'static' }),
  },
])

type Source = NonNullable<NonNullable<NonNullable<Domain['devices']>['disks']>[number]['source']>
type SourceLabel = NonNullable<Source['seclabels']>[number]

/** A disk whose source has these labels. */
const disk = (...seclabels: SourceLabel[]): Domain => ({
  devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d', seclabels } }] },
})

const label = (more: SourceLabel = {}): SourceLabel => ({ model: 'selinux', relabel: true, label: 'a', ...more })

/** A serial port over UDP with two ends, of which one has a label. */
const udp = (seclabel: SourceLabel): Domain => ({
  devices: {
    serials: [
      {
        type: 'udp',
        sources: [
          { mode: 'bind', host: '127.0.0.1', service: '2445', seclabels: [seclabel] },
          { mode: 'connect', host: '127.0.0.1', service: '2446' },
        ],
      },
    ],
  },
})

/** A disk whose backing file has a label. */
const layered = (relabel: boolean): Domain => ({
  devices: {
    disks: [
      {
        type: 'file',
        target: { dev: 'vda' },
        driver: { name: 'qemu', type: 'qcow2' },
        source: { file: '/d' },
        backingStore: {
          type: 'file',
          format: { type: 'raw' },
          source: { file: '/b', seclabels: [{ model: 'selinux', relabel }] },
        },
      },
    ],
  },
})

testRule('seclabel-source', [
  {
    refused: { ...labelled({ model: 'selinux', type: 'none' }), ...disk({ model: 'selinux', relabel: false }) },
    causes: [
      'spec.domain.devices.disks[0].source.seclabels[0]: Forbidden: must not be set: spec.domain.seclabels disables labels of selinux',
    ],
    accepted: { ...labelled({ model: 'apparmor', type: 'none' }), ...disk({ model: 'selinux', relabel: false }) },
  },
  {
    refused: { ...labelled(selinux({ relabel: false })), ...disk({ model: 'selinux', relabel: false }) },
    causes: [
      'spec.domain.devices.disks[0].source.seclabels[0]: Forbidden: must not be set: spec.domain.seclabels disables labels of selinux',
    ],
    accepted: { ...labelled(selinux({ relabel: true })), ...disk({ model: 'selinux', relabel: false }) },
  },
  {
    refused: disk(label(), label()),
    causes: [
      'spec.domain.devices.disks[0].source.seclabels[1].model: Duplicate value: "selinux": already has a label for this source',
    ],
    accepted: disk(label(), label({ model: 'apparmor' })),
  },
  {
    refused: disk({ model: 'selinux', relabel: true }),
    causes: [
      'spec.domain.devices.disks[0].source.seclabels[0].label: Required value: must be set when relabel is true',
    ],
    accepted: disk(label()),
  },
  {
    refused: disk(label({ relabel: false })),
    causes: [
      'spec.domain.devices.disks[0].source.seclabels[0].relabel: Invalid value: false: must be true when a label is set',
    ],
    accepted: disk(label()),
  },
  {
    refused: udp({ model: 'selinux', relabel: true }),
    causes: [
      'spec.domain.devices.serials[0].sources[0].seclabels[0].label: Required value: must be set when relabel is true',
      'spec.domain.devices.consoles[0].sources[0].seclabels[0].label: Required value: must be set when relabel is true',
    ],
    accepted: udp({ model: 'selinux', relabel: false }),
  },
  {
    refused: layered(true),
    causes: [
      'spec.domain.devices.disks[0].backingStore.source.seclabels[0].label: Required value: must be set when relabel is true',
    ],
    accepted: layered(false),
  },
  {
    refused: {
      devices: {
        serials: [{ type: 'file', source: { path: '/s', seclabels: [{ model: 'selinux', relabel: true }] } }],
      },
    },
    causes: [
      'spec.domain.devices.serials[0].source.seclabels[0].label: Required value: must be set when relabel is true',
      'spec.domain.devices.consoles[0].source.seclabels[0].label: Required value: must be set when relabel is true',
    ],
    accepted: { devices: { serials: [{ type: 'file', source: { path: '/s', seclabels: [label()] } }] } },
  },
  {
    refused: { devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d', seclabel: { relabel: true } } }] } },
    causes: ['spec.domain.devices.disks[0].source.seclabel.label: Required value: must be set when relabel is true'],
    accepted: {
      devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d', seclabel: { relabel: false } } }] },
    },
  },
])
