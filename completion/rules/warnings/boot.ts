import { machineType } from '../../capabilities.ts'
import { list } from '../device.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

export const bootDevice: Warning = {
  id: 'no-boot-device',
  description: 'A VM without a disk, network interface, file system, host device or kernel cannot boot.',
  *check({ domain }) {
    const { os, devices = {} } = domain
    if (os?.kernel !== undefined) return
    const kinds = ['disks', 'interfaces', 'filesystems', 'hostdevs', 'redirdevs'] as const
    if (kinds.some((kind) => (devices[kind]?.length ?? 0) > 0)) return
    yield 'nothing to boot from: the VM has no disk, network interface or kernel'
  },
  example: example({ devices: {} }, { devices: { interfaces: [{ type: 'user' }] } }),
}

export const bootKind: Warning = {
  id: 'boot-kind-missing',
  description: 'The VM should have a device of each kind in `os.boots`.',
  about: ['boots'],
  *check({ domain, originOf }) {
    const disks = list(domain, 'disks')
    for (const [index, { dev }] of (domain.os?.boots ?? []).entries()) {
      if (dev === undefined || originOf(`spec.domain.os.boots[${index}].dev`).by === 'default') continue
      const exists =
        dev === 'network'
          ? list(domain, 'interfaces').length > 0
          : disks.some(({ device = 'disk' }) =>
              dev === 'hd' ? device === 'disk' || device === 'lun' : device === (dev === 'fd' ? 'floppy' : dev),
            )
      if (!exists) yield `os.boots lists ${dev}, but the VM has no such device`
    }
  },
  example: example(
    { os: { type: { os: 'hvm' }, boots: [{ dev: 'cdrom' }] } },
    {
      os: { type: { os: 'hvm' }, boots: [{ dev: 'cdrom' }] },
      devices: { disks: [{ device: 'cdrom', target: { dev: 'sda', bus: 'sata' } }] },
    },
  ),
}

export const deprecatedMachine: Warning = {
  id: 'machine-deprecated',
  description: 'A deprecated machine type will be removed from QEMU.',
  *check({ domain, capabilities }) {
    const name = domain.os?.type?.machine ?? ''
    if (machineType(capabilities, name)?.isDeprecated === true)
      yield `machine type ${name} is deprecated and will be removed from QEMU`
  },
  example: example(
    { os: { type: { os: 'hvm', machine: 'pc-i440fx-2.12' } } },
    { os: { type: { os: 'hvm', machine: 'pc' } } },
  ),
}
