import { list } from '../device.ts'
import { example, type Example } from '../rule.ts'
import { imageDisks, unusedVolumes } from '../volume.ts'
import type { Warning } from './warning.ts'

const cached = (cache: 'unsafe' | 'none'): Example['breaks']['domain'] => ({
  devices: { disks: [{ target: { dev: 'vda' }, source: { file: '/d' }, driver: { cache } }] },
})

export const unsafeCache: Warning = {
  id: 'disk-cache-unsafe',
  description: 'Cache mode unsafe ignores flushes of the guest and loses data when the node crashes.',
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
  description: 'The default SCSI controller, an LSI 53C895A, has no driver in most guests.',
  *check({ domain, originOf }) {
    for (const [index, { type, model }] of list(domain, 'controllers').entries()) {
      if (type !== 'scsi' || model !== 'lsilogic') continue
      if (originOf(`spec.domain.devices.controllers[${index}].model`).by !== 'default') continue
      yield `devices.controllers[${index}]: few guests have a driver for lsilogic, the default; use virtio-scsi`
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
  description: 'Windows, which `features.hyperv` is for, has no built-in driver for virtio disks.',
  about: ['hyperv'],
  *check({ domain }) {
    if (!domain.features?.hyperv) return
    const index = list(domain, 'disks').findIndex(({ target }) => target?.bus === 'virtio')
    if (index >= 0) yield `devices.disks[${index}]: Windows (features.hyperv) has no built-in driver for bus virtio`
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
  description: 'Each volume should be used by a disk or file system.',
  *check(subject) {
    for (const name of unusedVolumes(subject))
      yield `volume ${JSON.stringify(name)} is not used by any disk or file system (type: volume, source.volume)`
  },
  example: {
    breaks: { domain: {}, volumes: [{ name: 'root', emptyDisk: { capacity: '1Gi' } }] },
    holds: {
      domain: { devices: { disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' } }] } },
      volumes: [{ name: 'root', emptyDisk: { capacity: '1Gi' } }],
    },
  },
}

/** libvirt applies the cache mode of a disk to its backing images as well. */
const uncached = ['none', 'directsync']

const cachedImage = (cache: 'none' | 'writeback'): Example['breaks'] => ({
  domain: {
    devices: { disks: [{ type: 'volume', source: { volume: 'root' }, target: { dev: 'vda' }, driver: { cache } }] },
  },
  volumes: [{ name: 'root', image: { reference: 'quay.io/containerdisks/debian:13' } }],
})

export const uncachedImage: Warning = {
  id: 'volume-image-cache',
  description:
    'Cache modes none and directsync bypass the page cache, through which the VMs of a node share the disk of an image.',
  about: ['cache'],
  *check(subject) {
    for (const { disk, at } of imageDisks(subject)) {
      const cache = disk.driver?.cache
      if (cache === undefined || !uncached.includes(cache)) continue
      yield `${at.replace('spec.domain.', '')}: with cache ${cache}, each VM reads the image from the node's disk itself`
    }
  },
  example: { breaks: cachedImage('none'), holds: cachedImage('writeback') },
}
