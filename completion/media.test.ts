import { describe, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import { renderCause } from '../api/refusal.ts'
import type { VirtualMachineSpec } from '../api/virtual-machine.ts'
import { keptMedia, mediaCauses, withMediaOf } from './media.ts'

type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]

const root: Disk = { type: 'volume', device: 'disk', source: { volume: 'root' }, target: { dev: 'vda' } }
const drive = (source: Disk['source'] | undefined, more: Disk = {}): Disk => ({
  type: 'volume',
  device: 'cdrom',
  driver: { name: 'qemu', type: 'raw' },
  ...(source === undefined ? {} : { source }),
  target: { dev: 'sda' },
  ...more,
})
const claim = (name: string) => ({ name, persistentVolumeClaim: { claimName: name } })
const spec = (
  disk: Disk,
  more: Partial<VirtualMachineSpec> = {},
  devices: Domain['devices'] = {},
): VirtualMachineSpec => ({
  domain: { type: 'qemu', devices: { disks: [root, disk], ...devices } },
  volumes: [claim('root'), claim('iso'), claim('tools'), { name: 'image', image: { reference: 'i' } }],
  ...more,
})
const stored = spec(drive({ volume: 'iso', startupPolicy: 'optional' }))
const field = 'spec.domain.devices.disks[1].source.volume'
const usersOwn = { enforced: new Map(), isUsers: () => true }
const ofPresets = { ...usersOwn, isUsers: () => false }
const mediumOf = ({ domain }: VirtualMachineSpec) => domain.devices?.disks?.[1]?.source

describe('the medium', () => {
  test.each<[string, unknown, Disk['source'] | undefined]>([
    ['is another volume', drive({ volume: 'tools' }), { volume: 'tools', startupPolicy: 'optional' }],
    ['is ejected by an empty source', drive({}), { startupPolicy: 'optional' }],
    ['is ejected by an absent source, if the user has set it', drive(undefined), { startupPolicy: 'optional' }],
    ['stays if a manifest has the same', drive({ volume: 'iso' }), mediumOf(stored)],
    ['stays if it is not a name', { ...drive({}), source: { volume: 7 } }, mediumOf(stored)],
    ['stays if there is no disk at its place', 'a text', mediumOf(stored)],
  ])('%s', (_, sent, source) => {
    const changed = withMediaOf({ domain: { devices: { disks: [root, sent] } } }, stored, usersOwn)
    expect(mediumOf(changed)).toEqual(source)
    expect(changed).toEqual({ ...stored, domain: { type: 'qemu', devices: { disks: [root, drive(source)] } } })
  })

  test.each<[string, unknown, Disk['source'] | undefined]>([
    ['stays if a manifest omits what a preset has added', drive(undefined), mediumOf(stored)],
    ['is ejected by an empty source all the same', drive({}), { startupPolicy: 'optional' }],
  ])('of a preset %s', (_, sent, source) =>
    expect(mediumOf(withMediaOf({ domain: { devices: { disks: [root, sent] } } }, stored, ofPresets))).toEqual(source),
  )

  test.each<[string, Disk]>([
    ['of a disk', root],
    ['of a file, which reaches the host', drive({ file: '/a' }, { type: 'file' })],
    ['of a storage pool of libvirt', drive({ pool: 'default', volume: 'iso' })],
    ['of a floppy drive', drive({ volume: 'iso' }, { device: 'floppy' })],
  ])('%s cannot change', (_, disk) => {
    const before = spec(disk)
    const sent = spec({ ...disk, source: { volume: 'tools', file: '/etc/passwd' } })
    expect(withMediaOf(sent, before, usersOwn)).toBe(before)
  })

  test.each([field, 'spec.domain.devices.disks'])('stays if a preset enforces %s', (path) => {
    const site = { by: 'preset', name: 'site', revision: 'r' } as const
    const origins = { ...usersOwn, enforced: new Map([[path, site]]) }
    const sent = (source?: Disk['source']) => ({ domain: { devices: { disks: [root, drive(source)] } } })
    for (const source of [{ volume: 'tools' }, {}, undefined])
      expect(withMediaOf(sent(source), stored, origins)).toBe(stored)
    const kept = (source?: Disk['source']) => keptMedia(sent(source), stored, origins)
    expect([kept({ volume: 'tools' }), kept({})]).toEqual([[[field, site]], [[field, site]]])
    expect([kept(), kept({ volume: 'iso' })]).toEqual([[], []])
    expect(keptMedia(sent({}), stored, usersOwn)).toEqual([])
  })

  test('nothing else of what is sent is taken', () => {
    const sent = spec(drive({ volume: 'tools', file: '/etc/passwd' }, { serial: 'x' }), { nodeSelector: { a: 'b' } })
    expect(withMediaOf(sent, stored, usersOwn)).toEqual(spec(drive({ volume: 'tools', startupPolicy: 'optional' })))
  })

  test.each([undefined, 7, {}, { domain: { devices: { disks: {} } } }])('%j is no spec with media', (sent) =>
    expect(withMediaOf(sent, stored, usersOwn)).toBe(stored),
  )
})

describe('a medium is refused', () => {
  test.each<[string, VirtualMachineSpec, string[]]>([
    ['unless it is another one', stored, []],
    ['unless it is a volume of the VM', spec(drive({ volume: 'tools' })), []],
    [
      'that is no volume of the VM',
      spec(drive({ volume: 'tool' })),
      [
        `${field}: Not found: "tool": no volume has this name; spec.volumes has root, iso, tools and 1 more; did you mean "tools"?`,
      ],
    ],
    [
      'in another format than the drive has',
      spec(drive({ volume: 'image' })),
      [
        `${field}: Forbidden: is of kind image, and so qcow2; the drive has driver.type raw, which cannot change while the VM exists`,
      ],
    ],
    [
      'that is raw in a drive for qcow2, whose header could name other files',
      spec(drive({ volume: 'tools' }, { driver: { type: 'qcow2' } })),
      [
        `${field}: Forbidden: is not of kind image, and so raw; the drive has driver.type qcow2, which cannot change while the VM exists`,
      ],
    ],
    ['unless a drive for qcow2 gets an image', spec(drive({ volume: 'image' }, { driver: { type: 'qcow2' } })), []],
    [
      'that the guest can write to by virtiofs',
      spec(drive({ volume: 'tools' }), {}, { filesystems: [{ type: 'volume', source: { volume: 'tools' } }] }),
      [`${field}: Forbidden: is shared with the guest as a file system`],
    ],
    [
      'that has the state of devices',
      spec(drive({ volume: 'tools' }), { deviceStateVolume: 'tools' }),
      [`${field}: Forbidden: contains the state of devices`],
    ],
    [
      'whose claim the guest can write to by another volume',
      spec(
        drive({ volume: 'tools' }),
        { volumes: [claim('tools'), { ...claim('tools'), name: 'same' }] },
        { filesystems: [{ type: 'volume', source: { volume: 'same' } }] },
      ),
      [`${field}: Forbidden: is shared with the guest as a file system`],
    ],
    [
      'whose claim has the state of devices by another volume',
      spec(drive({ volume: 'tools' }), {
        volumes: [claim('tools'), { ...claim('tools'), name: 'same' }],
        deviceStateVolume: 'same',
      }),
      [`${field}: Forbidden: contains the state of devices`],
    ],
  ])('%s', (_, changed, causes) =>
    expect(mediaCauses(changed, stored).map((cause) => `${cause.field}: ${renderCause(cause)}`)).toEqual(causes),
  )
})
