import { expect, test } from 'vitest'
import { readSettings } from './settings.ts'

test('everything has the default that the image is built for', () => {
  expect(readSettings({})).toMatchObject({
    socketDirectory: '/var/run/virtset/sockets',
    volumes: {
      files: '/var/run/virtset/volumes',
      blocks: '/var/run/virtset/block',
      images: '/var/run/virtset/images',
      sources: '/var/run/virtset/sources',
    },
    libvirtSocket: '/var/run/virtset/private/run/libvirt/libvirt-sock',
    libvirtState: '/var/run/virtset/private/run/libvirt/qemu/run',
    qemuConf: '/var/run/virtset/private/config/libvirt/qemu.conf',
    hugePages: '/var/run/virtset/hugepages',
    nvram: '/var/run/virtset/private/config/libvirt/qemu/nvram',
    removable: [
      '/var/run/virtset/private',
      '/var/run/virtset/volumes',
      '/tmp',
      '/run/lock',
      '/dev/shm',
      '/var/run/virtset/hugepages',
    ],
    vmUID: undefined,
  })
})

test('libvirtd gets its own directories and nothing else of the environment', () => {
  const { libvirtd, directories } = readSettings({ VIRTSET_RUN_DIR: '/r', PATH: '/bin', SECRET: 'x' })
  expect(Object.keys(libvirtd).toSorted()).toEqual([
    'HOME',
    'PATH',
    'TMPDIR',
    'XDG_CACHE_HOME',
    'XDG_CONFIG_HOME',
    'XDG_DATA_HOME',
    'XDG_RUNTIME_DIR',
  ])
  expect(directories).toEqual(['/r/run', '/r/config/libvirt', '/r/cache', '/r/data', '/r/tmp'])
})
