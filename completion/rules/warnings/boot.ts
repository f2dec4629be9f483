import { machineType } from '../../capabilities.ts'
import { list } from '../device.ts'
import { example } from '../rule.ts'
import type { Warning } from './warning.ts'

export const bootDevice: Warning = {
  id: 'no-boot-device',
  description: 'A VM without disk, network interface, kernel or file system has nothing to boot from.',
  *check({ domain }) {
    const { os, devices = {} } = domain
    if (os?.kernel !== undefined) return
    const kinds = ['disks', 'interfaces', 'filesystems', 'hostdevs', 'redirdevs'] as const
    if (kinds.some((kind) => (devices[kind]?.length ?? 0) > 0)) return
    yield 'nothing to boot from: there is no disk, no network interface and no kernel'
  },
  example: example({ devices: {} }, { devices: { interfaces: [{ type: 'user' }] } }),
}

export const bootKind: Warning = {
  id: 'boot-kind-missing',
  description: 'A kind of device to boot from is there.',
  about: ['boots'],
  *check({ domain, originOf }) {
    const disks = list(domain, 'disks')
    for (const [index, { dev }] of (domain.os?.boots ?? []).entries()) {
      if (originOf(`spec.domain.os.boots[${index}].dev`).by === 'default') continue
      const isThere =
        dev === 'network'
          ? list(domain, 'interfaces').length > 0
          : disks.some(({ device = 'disk' }) =>
              dev === 'hd' ? device === 'disk' || device === 'lun' : device === (dev === 'fd' ? 'floppy' : dev),
            )
      if (!isThere) yield `os.boots names ${dev}, and there is no such device`
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
  description: 'A machine type that QEMU is going to drop.',
  *check({ domain, capabilities }) {
    const name = domain.os?.type?.machine ?? ''
    if (machineType(capabilities, name)?.isDeprecated === true)
      yield `machine type ${name} is deprecated, and QEMU will drop it`
  },
  example: example(
    { os: { type: { os: 'hvm', machine: 'pc-i440fx-2.12' } } },
    { os: { type: { os: 'hvm', machine: 'pc' } } },
  ),
}
