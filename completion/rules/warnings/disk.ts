import { list } from '../device.ts'
import { example, type Example } from '../rule.ts'
import { unusedVolumes } from '../volume.ts'
import type { Warning } from './warning.ts'

const cached = (cache: 'unsafe' | 'none'): Example['breaks']['domain'] => ({
  devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d' }, driver: { cache } }] },
})

export const unsafeCache: Warning = {
  id: 'disk-cache-unsafe',
  description: 'A cache that ignores what the guest asks to be written out loses data when the node crashes.',
  about: ['cache'],
  *check({ domain }) {
    for (const [index, { driver }] of list(domain, 'disks').entries()) {
      if (driver?.cache === 'unsafe') yield `devices.disks[${index}]: cache unsafe loses data when the node crashes`
    }
  },
  example: example(cached('unsafe'), cached('none')),
}

export const oldScsi: Warning = {
  id: 'scsi-model-old',
  description: 'libvirt takes an LSI 53C895A where no SCSI model is named, and few guests still drive it.',
  *check({ domain, originOf }) {
    for (const [index, { type, model }] of list(domain, 'controllers').entries()) {
      if (type !== 'scsi' || model !== 'lsilogic') continue
      if (originOf(`spec.domain.devices.controllers[${index}].model`).by !== 'default') continue
      yield `devices.controllers[${index}]: few guests drive lsilogic, the default; model virtio-scsi is the usual one`
    }
  },
  example: example(
    { devices: { disks: [{ target: { dev: 'sda', bus: 'scsi' }, source: { file: '/d' } }] } },
    {
      devices: {
        disks: [{ target: { dev: 'sda', bus: 'scsi' }, source: { file: '/d' } }],
        controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi' }],
      },
    },
  ),
}

export const windowsVirtio: Warning = {
  id: 'windows-virtio-disk',
  description: 'Windows, for which the interfaces of Hyper-V are, has no driver of its own for virtio disks.',
  about: ['hyperv'],
  *check({ domain }) {
    if (!domain.features?.hyperv) return
    const index = list(domain, 'disks').findIndex(({ target }) => target?.bus === 'virtio')
    if (index >= 0) yield `devices.disks[${index}]: Windows (features.hyperv) has no driver of its own for bus virtio`
  },
  example: example(
    {
      features: { hyperv: { relaxed: { state: true } } },
      devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d' } }] },
    },
    {
      features: { hyperv: { relaxed: { state: true } } },
      devices: { disks: [{ target: { dev: 'sda', bus: 'sata' }, source: { file: '/d' } }] },
    },
  ),
}

export const volumeUnused: Warning = {
  id: 'volume-unused',
  description: 'A volume that no disk takes.',
  *check(subject) {
    for (const name of unusedVolumes(subject))
      yield `volume ${JSON.stringify(name)} is taken by no disk (type: volume, source.volume)`
  },
  example: {
    breaks: { domain: {}, volumes: [{ name: 'root', emptyDisk: { capacity: '1Gi' } }] },
    holds: {
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' } }] } },
      volumes: [{ name: 'root', emptyDisk: { capacity: '1Gi' } }],
    },
  },
}
