import { expect, test } from 'vitest'
import type { AttachedVolume } from '../../api/attached-volume.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { renderCause } from '../../api/refusal.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { prepare } from '../../test/rule-table.ts'
import { checkRules } from './rules.ts'

const item = (name: string, dev: string, bus = 'virtio', more: Partial<AttachedVolume> = {}): AttachedVolume => ({
  name,
  persistentVolumeClaim: { claimName: name },
  target: { dev, bus },
  ...more,
})
const disk = { source: { file: '/d' }, target: { dev: 'vda', bus: 'virtio' as const } }
const pc: Domain = { os: { type: { os: 'hvm', machine: 'pc' } }, devices: { disks: [disk] } }
const q35 = (ports: number, controllers: NonNullable<NonNullable<Domain['devices']>['controllers']> = []): Domain => ({
  os: { type: { os: 'hvm', machine: 'q35' } },
  devices: {
    controllers: [
      ...controllers,
      ...Array.from({ length: ports }, () => ({ type: 'pci' as const, model: 'pcie-root-port' as const })),
    ],
  },
})
const scsi = (...indexes: number[]): Domain => ({
  ...pc,
  devices: { disks: [disk], controllers: indexes.map((index) => ({ type: 'scsi', index, model: 'virtio-scsi' })) },
})

function causesOf(domain: Domain, attachedVolumes: readonly AttachedVolume[], more: Partial<VirtualMachineSpec> = {}) {
  const [spec, context] = prepare(domain, {})
  const { causes } = checkRules({ ...spec, ...more, attachedVolumes }, context)
  return causes
    .filter(({ rule }) => rule === 'attached-volume')
    .map((cause) => `${cause.field.replace('spec.attachedVolumes', '')}: ${renderCause(cause)}`)
}

const data = { name: 'data', persistentVolumeClaim: { claimName: 'data' } }
const noController =
  'add {type: scsi, model: virtio-scsi} to spec.domain.devices.controllers before the start, or use bus virtio'
const noPort =
  'state {type: pci, model: pcie-root-port} 4 times in spec.domain.devices.controllers before the start, or use bus scsi'

test.each<[string, Domain, AttachedVolume[], string[]]>([
  ['are different disks', pc, [item('a', 'vdb'), item('b', 'vdc')], []],
  ['have long names that begin alike', pc, [item(`${'x'.repeat(20)}1`, 'vdb'), item(`${'x'.repeat(20)}2`, 'vdc')], []],
  [
    'have the serial number of another that virtio cuts to 20 characters',
    { ...pc, devices: { disks: [{ ...disk, serial: `${'x'.repeat(20)}-2` }] } },
    [item('x'.repeat(20), 'vdb')],
    [`[0].serial: Duplicate value: "${'x'.repeat(20)}": spec.domain.devices.disks[0] already has this serial number`],
  ],
  [
    'have the serial numbers of others, one by its name',
    { ...pc, devices: { disks: [{ ...disk, serial: 'a' }] } },
    [item('a', 'vdb'), item('b', 'vdc'), item('c', 'vdd', 'virtio', { serial: 'b' })],
    [
      '[0].serial: Duplicate value: "a": spec.domain.devices.disks[0] already has this serial number',
      '[2].serial: Duplicate value: "b": spec.attachedVolumes[1] already has this serial number',
    ],
  ],
  [
    'are the disk of the VM',
    pc,
    [item('a', 'vda')],
    ['[0].target.dev: Duplicate value: "vda": spec.domain.devices.disks[0] already is this disk'],
  ],
  [
    'are the same disk',
    pc,
    [item('a', 'vdb'), item('b', 'vdb')],
    ['[1].target.dev: Duplicate value: "vdb": spec.attachedVolumes[0] already is this disk'],
  ],
  [
    'are the same claim',
    pc,
    [item('a', 'vdb'), item('b', 'vdc', 'virtio', { persistentVolumeClaim: { claimName: 'a' } })],
    ['[1].persistentVolumeClaim.claimName: Duplicate value: "a": spec.attachedVolumes[0] already uses this claim'],
  ],
  [
    'have the same name',
    pc,
    [item('a', 'vdb'), item('a', 'vdc', 'virtio', { persistentVolumeClaim: { claimName: 'b' } })],
    ['[1].name: Duplicate value: "a": spec.attachedVolumes[0] already has this name'],
  ],
  [
    'are on SATA',
    pc,
    [item('a', 'sdb', 'sata')],
    [
      '[0].target.bus: Unsupported value: "sata": cannot get a disk while the guest runs: libvirt hot-plugs disks only on virtio and scsi here; virtio, or scsi with a SCSI controller',
    ],
  ],
  ...['constructor', '__proto__', 'toString'].map((bus): [string, Domain, AttachedVolume[], string[]] => [
    `are on a bus with the name of a member of every object, ${bus}`,
    pc,
    [item('a', 'sdb', bus)],
    [
      `[0].target.bus: Unsupported value: "${bus}": cannot get a disk while the guest runs: libvirt hot-plugs disks only on virtio and scsi here; virtio, or scsi with a SCSI controller`,
    ],
  ]),
  [
    'are on virtio by another name',
    pc,
    [item('a', 'sdb')],
    ['[0].target.dev: Invalid value: "sdb": must be vd and letters on bus virtio; e.g. vdb'],
  ],
  [
    'have a long serial number',
    pc,
    [item('a', 'vdb', 'virtio', { serial: 'x'.repeat(21) })],
    [`[0].serial: Invalid value: "${'x'.repeat(21)}": must be at most 20 characters on bus virtio`],
  ],
  ['are on SCSI', scsi(0, 1), [item('a', 'sdb', 'scsi', { serial: 'x'.repeat(36) }), item('b', 'sdh', 'scsi')], []],
  [
    'are on SCSI without a controller',
    pc,
    [item('a', 'sdb', 'scsi')],
    [
      `[0].target.bus: Forbidden: sdb needs the SCSI controller with index 0, which the domain does not have; ${noController}`,
    ],
  ],
  [
    'are on SCSI beyond its controller',
    scsi(0),
    [item('a', 'sdh', 'scsi')],
    [
      '[0].target.bus: Forbidden: sdh needs the SCSI controller with index 1, which the domain does not have; the first seven letters are on index 0, the next on 1; the domain has 0',
    ],
  ],
  ['have a root port each', q35(4), [item('a', 'vdb'), item('b', 'vdc')], []],
  [
    'have no root port',
    q35(0),
    [item('a', 'vdb'), item('b', 'vdc')],
    [
      `[1].target.bus: Too many: "virtio": needs one free PCI Express root port for each disk, and the domain has 1; ${noPort}`,
    ],
  ],
])('attached volumes that %s', (_, domain, items, expected) => expect(causesOf(domain, items)).toEqual(expected))

test('attached volumes are not those that the VM already has', () => {
  expect(causesOf(pc, [item('data', 'vdb')], { volumes: [data] })).toEqual([
    '[0].name: Duplicate value: "data": spec.volumes[0] already has this name',
    '[0].persistentVolumeClaim.claimName: Duplicate value: "data": spec.volumes[0] already uses this claim',
  ])
})
