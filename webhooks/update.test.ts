import { describe, expect, test } from 'vitest'
import { restoreSpec } from './update.ts'

const stored = {
  domain: {
    memory: { unit: 'MB', value: 64 },
    devices: {
      disks: [{ target: { dev: 'vda', bus: 'virtio' }, readonly: {} }, { target: { dev: 'vdb', bus: 'virtio' } }],
      serials: [{ type: 'pty' }],
    },
  },
}
/** Of the stored VM the user wrote the memory and the first disk. */
const users = new Set([
  'spec.domain.memory.unit',
  'spec.domain.memory.value',
  'spec.domain.devices.disks[0].target.dev',
])
const remembered = {
  isUsers: (path: string) => users.has(path),
  // A preset had enforced virtio in place of sata, and taken the user's title away.
  isOverridden: (path: string) => ['spec.domain.devices.disks[1].target.bus', 'spec.domain.title'].includes(path),
}
const memory = { unit: 'MB', value: 64 }
const disk = { target: { dev: 'vda' } }

describe('a manifest sent again', () => {
  const restored = (sent: unknown) => restoreSpec(sent, stored, remembered)

  test.each<[string, unknown]>([
    ['as it is stored', stored],
    ['as its author wrote it', { domain: { memory, devices: { disks: [disk] } } }],
    ['spelled otherwise', { domain: { memory: { unit: 'MB', value: '64' }, devices: { disks: [disk] } } }],
    [
      'with what a preset overrode or took away',
      { domain: { memory, title: 'x', devices: { disks: [disk, { target: { dev: 'vdb', bus: 'sata' } }] } } },
    ],
    ['with a part of what was added', { domain: { memory, devices: { disks: [disk], serials: [{}] } } }],
  ])('%s gets back what completion had added', (_, sent) => expect(restored(sent)).toEqual({ restored: stored }))

  test.each<[string, unknown, string[]]>([
    [
      'with another value',
      { domain: { memory: { unit: 'MB', value: 128 }, devices: { disks: [disk] } } },
      ['spec.domain.memory.value: may not be changed from 64'],
    ],
    [
      'with another value where completion had put one',
      { domain: { memory, devices: { disks: [{ target: { dev: 'vda', bus: 'sata' } }] } } },
      ['spec.domain.devices.disks[0].target.bus: may not be changed from "virtio"'],
    ],
    [
      'with more',
      { domain: { memory, uuid: 'x', devices: { disks: [disk] } }, 'a.b': 1 },
      ['spec.domain.uuid: may not be added', 'spec[a.b]: may not be added'],
    ],
    [
      'with a further disk',
      { domain: { memory, devices: { disks: [disk, {}, { target: { dev: 'vdc' } }] } } },
      ['spec.domain.devices.disks[2]: may not be added'],
    ],
    [
      'without what the user had written',
      { domain: { memory: { unit: 'MB' }, devices: {} } },
      [
        'spec.domain.memory.value: may not be taken away: 64',
        'spec.domain.devices.disks: may not be taken away: [{"target":{"dev":"vda","bus":"virtio"},"readonly":{}},{"ta…',
      ],
    ],
    [
      'as something else',
      'x',
      ['spec: may not be changed from {"domain":{"memory":{"unit":"MB","value":64},"devices":{"di…'],
    ],
  ])('%s is refused', (_, sent, expected) => {
    const outcome = restored(sent)
    const causes = 'causes' in outcome ? outcome.causes : []
    expect(causes.map(({ field, message }) => `${field}: ${message}`)).toEqual(
      expected.map((sentence) => `${sentence}; the spec of a VM is fixed once it is stored`),
    )
  })

  test('differs in so much that not all is told', () => {
    const sent = Object.fromEntries(Array.from({ length: 60 }, (_, index) => [`key${index}`, index]))
    const outcome = restored({ ...sent, domain: { memory, devices: { disks: [disk] } } })
    const causes = 'causes' in outcome ? outcome.causes : []
    expect([causes.length, causes.at(-1)?.message.startsWith('and 10 more differences')]).toEqual([51, true])
  })
})
