import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'

const shared: Domain = { memoryBacking: { source: { type: 'memfd' }, access: { mode: 'shared' } } }

/** A guest with a NUMA node for each mode of access, of which `undefined` follows `memoryBacking`. */
const cells = (...modes: ('shared' | 'private' | undefined)[]): Domain => ({
  vcpu: { value: modes.length },
  cpu: {
    numa: {
      cells: modes.map((memAccess, id) => ({
        id,
        cpus: `${id}`,
        memory: 1,
        unit: 'GiB',
        ...(memAccess === undefined ? {} : { memAccess }),
      })),
    },
  },
})

const virtiofs: Domain = {
  devices: { filesystems: [{ driver: { type: 'virtiofs' }, source: { dir: '/d' }, target: { dir: 't' } }] },
}

const vhostuser: Domain = {
  devices: {
    interfaces: [
      { type: 'vhostuser', model: { type: 'virtio' }, source: { type: 'unix', path: '/s', mode: 'client' } },
    ],
  },
}

const disk: Domain = {
  devices: {
    disks: [{ type: 'vhostuser', source: { type: 'unix', path: '/s' }, target: { dev: 'vda', bus: 'virtio' } }],
  },
}

const vdpa: Domain = {
  devices: {
    disks: [
      {
        type: 'vhostvdpa',
        driver: { name: 'qemu', cache: 'none' },
        source: { dev: '/dev/vhost-vdpa-0' },
        target: { dev: 'vda', bus: 'virtio' },
      },
    ],
  },
}

testRule('shared-memory', [
  {
    refused: virtiofs,
    causes: [
      'spec.domain.devices.filesystems[0].driver.type: Invalid value: "virtiofs": requires shared memory, which the serving process can read; memoryBacking: {source: {type: memfd}, access: {mode: shared}}',
    ],
    accepted: { ...shared, ...virtiofs },
  },
  {
    refused: vhostuser,
    causes: [
      'spec.domain.devices.interfaces[0].type: Invalid value: "vhostuser": requires shared memory, which the serving process can read; memoryBacking: {source: {type: memfd}, access: {mode: shared}}',
    ],
    accepted: { ...shared, ...vhostuser },
  },
  {
    refused: disk,
    causes: [
      'spec.domain.devices.disks[0].type: Invalid value: "vhostuser": requires shared memory, which the serving process can read; memoryBacking: {source: {type: memfd}, access: {mode: shared}}',
    ],
    accepted: { ...shared, ...disk },
  },
  {
    refused: vdpa,
    causes: [
      'spec.domain.devices.disks[0].type: Invalid value: "vhostvdpa": requires shared memory, which the serving process can read; memoryBacking: {source: {type: memfd}, access: {mode: shared}}',
    ],
    accepted: { ...shared, ...vdpa },
  },
  {
    refused: { ...virtiofs, ...cells('shared', 'private') },
    causes: [
      'spec.domain.devices.filesystems[0].driver.type: Invalid value: "virtiofs": requires shared memory, which the serving process can read; memoryBacking: {source: {type: memfd}, access: {mode: shared}}',
    ],
    accepted: { ...virtiofs, ...cells('shared', 'shared') },
  },
  {
    refused: { ...virtiofs, ...cells('shared', undefined) },
    causes: [
      'spec.domain.devices.filesystems[0].driver.type: Invalid value: "virtiofs": requires shared memory, which the serving process can read; memoryBacking: {source: {type: memfd}, access: {mode: shared}}',
    ],
    accepted: { ...virtiofs, ...shared, ...cells('shared', undefined) },
  },
])
