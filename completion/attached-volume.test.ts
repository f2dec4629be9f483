import { describe, expect, test } from 'vitest'
import type { AttachedVolume } from '../api/attached-volume.ts'
import { renderCause } from '../api/refusal.ts'
import type { VirtualMachine, VirtualMachineSpec } from '../api/virtual-machine.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { attachedVolumeCauses, fillAttachedVolumes, withAttachedVolumesOf } from './attached-volume.ts'
import { bundledCapabilities } from './capabilities.ts'
import { complete } from './complete.ts'

const item = (name: string, more: Partial<AttachedVolume> = {}): AttachedVolume => ({
  name,
  persistentVolumeClaim: { claimName: name },
  ...more,
})
const virtio = (dev: string) => ({ target: { dev, bus: 'virtio' } })
const spec = (...attachedVolumes: AttachedVolume[]): VirtualMachineSpec => ({
  domain: {
    devices: { disks: [{ source: { file: '/d' }, target: { dev: 'vda', bus: 'virtio' } }, { target: { dev: 'sda' } }] },
  },
  ...(attachedVolumes.length === 0 ? {} : { attachedVolumes }),
})

describe('the place of an attached volume', () => {
  const targets = (...given: (AttachedVolume['target'] | undefined)[]) =>
    fillAttachedVolumes(
      spec(...given.map((target, index) => item(`v${index}`, target === undefined ? {} : { target }))),
    ).attachedVolumes?.map(({ target }) => `${target?.bus} ${target?.dev}`)

  test.each<[string, (AttachedVolume['target'] | undefined)[], string[]]>([
    ['is the next free name on virtio', [undefined, undefined], ['virtio vdb', 'virtio vdc']],
    ['is not one that a later item states', [undefined, { dev: 'vdb' }], ['virtio vdc', 'virtio vdb']],
    ['is on the bus that is stated', [{ bus: 'scsi' }], ['scsi sdb']],
    ['is on the bus of its name', [{ dev: 'sdc' }], ['scsi sdc']],
    ['is left to validation on another bus', [{ bus: 'sata', dev: 'sdb' }], ['sata sdb']],
    [
      'has two letters after the last one',
      Array.from({ length: 26 }),
      'bcdefghijklmnopqrstuvwxyz'
        .split('')
        .map((one) => `virtio vd${one}`)
        .concat('virtio vdaa'),
    ],
  ])('%s', (_, given, expected) => expect(targets(...given)).toEqual(expected))

  test('does not change once it is complete', () => {
    const whole = spec(item('a', virtio('vdc')))
    expect(fillAttachedVolumes(whole)).toBe(whole)
  })
})

describe('an update', () => {
  const stored = spec(item('a', virtio('vdc')), item('b', virtio('vdb')))

  test.each<[string, unknown, AttachedVolume[] | undefined]>([
    ['may omit the places of items', [item('b'), item('a')], [item('b', virtio('vdb')), item('a', virtio('vdc'))]],
    [
      'adds an item in the next free place',
      [item('a'), item('n')],
      [item('a', virtio('vdc')), item('n', virtio('vdb'))],
    ],
    ['removes all items by an empty list', [], []],
    ['removes all items by no list', undefined, undefined],
    ['with anything else is left to validation', 7, 7 as never],
  ])('%s', (_, attachedVolumes, expected) => {
    expect(withAttachedVolumesOf({ attachedVolumes }, stored).attachedVolumes).toEqual(expected)
  })

  test('that has none changes nothing of a VM that has none', () => {
    const without = spec()
    expect(withAttachedVolumesOf({}, without)).toBe(without)
  })

  test.each([{ dev: 5 }, { bus: null }, { dev: [] }])('with the target %j is left for validation', (target) => {
    const attachedVolumes = [{ ...item('a'), target }]
    expect(withAttachedVolumesOf({ attachedVolumes }, stored).attachedVolumes).toBe(attachedVolumes)
  })

  test.each<[string, AttachedVolume[], string[]]>([
    ['of nothing', [item('a', virtio('vdc')), item('b', virtio('vdb'))], []],
    ['of the order', [item('b', virtio('vdb')), item('a', virtio('vdc'))], []],
    [
      'of an absent readOnly to false',
      [
        item('a', { ...virtio('vdc'), persistentVolumeClaim: { claimName: 'a', readOnly: false } }),
        item('b', virtio('vdb')),
      ],
      [],
    ],
    [
      'of the place',
      [item('a', virtio('vdd')), item('b', virtio('vdb'))],
      [
        'spec.attachedVolumes[0]: Forbidden: cannot be changed while "a" is attached; remove it, and add it again once status.attachedVolumes no longer has it',
      ],
    ],
    [
      'of the claim',
      [item('b', { ...virtio('vdb'), persistentVolumeClaim: { claimName: 'c' } })],
      [
        'spec.attachedVolumes[0]: Forbidden: cannot be changed while "b" is attached; remove it, and add it again once status.attachedVolumes no longer has it',
      ],
    ],
    [
      'that adds what is taken',
      [item('a', virtio('vdc')), item('n', virtio('vda'))],
      ['spec.attachedVolumes[1].target.dev: Duplicate value: "vda": spec.domain.devices.disks[0] already is this disk'],
    ],
    [
      'that adds before an old one what that has',
      [
        item('n', { ...virtio('vdc'), persistentVolumeClaim: { claimName: 'a' } }),
        item('a', virtio('vdc')),
        item('b', virtio('vdb')),
      ],
      [
        'spec.attachedVolumes[0].persistentVolumeClaim.claimName: Duplicate value: "a": spec.attachedVolumes[1] already uses this claim',
        'spec.attachedVolumes[0].target.dev: Duplicate value: "vdc": spec.attachedVolumes[1] already is this disk',
      ],
    ],
  ])('%s has these causes', (_, attachedVolumes, expected) => {
    const causes = attachedVolumeCauses({ ...stored, attachedVolumes }, stored)
    expect(causes.map((cause) => `${cause.field}: ${renderCause(cause)}`)).toEqual(expected)
  })
})

describe('presets', () => {
  const compiled = (spec: object) =>
    compilePreset({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'ClusterVirtualMachinePreset',
      metadata: { name: 'p' },
      spec: { selector: {}, strength: 'Enforce', ...spec },
    })

  test.each<[string, object]>([
    ['state', { attachedVolumes: [item('a')] }],
    ['remove', { remove: ['attachedVolumes'] }],
    ['remove parts of', { remove: ['attachedVolumes[0].serial'] }],
  ])('cannot %s attached volumes', (_, spec) => expect(compiled(spec)).toHaveProperty('quarantined'))

  test('leave those of a VM as they are, which is complete then', () => {
    const preset = compiled({ domain: { title: 'x', memory: { unit: 'MiB', value: 64 } } })
    if (!('preset' in preset)) throw new Error(JSON.stringify(preset))
    const options = {
      presets: createCandidates([preset.preset]),
      namespace: { name: 'default', labels: {} },
      capabilities: bundledCapabilities,
      entropy: { uid: 'u' },
    }
    const given: VirtualMachine = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'vm' },
      spec: { domain: { type: 'qemu', os: { type: { os: 'hvm' } } }, attachedVolumes: [item('a')] },
    }
    const first = complete(given, options)
    if (first.outcome === 'refused') throw new Error(JSON.stringify(first.causes))
    expect(first.vm.spec.attachedVolumes).toEqual([item('a', virtio('vda'))])
    expect(complete(first.vm, options)).toMatchObject({ outcome: 'completed', vm: first.vm })
  })
})
