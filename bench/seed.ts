import type { Domain } from '../api/domain/domain.ts'

/** The shortest VM: the project's first example. */
export const seed: Domain = {
  type: 'qemu',
  memory: { unit: 'MB', value: 64 },
  os: { type: { os: 'hvm' } },
  devices: {
    disks: [
      {
        type: 'network',
        snapshot: 'external',
        device: 'disk',
        driver: { name: 'qemu', type: 'raw', cache: 'none' },
        source: {
          host: { name: 'iscsi-demo-target.default', port: '3260' },
          protocol: 'iscsi',
          name: 'iqn.2017-01.io.kubevirt:sn.42/2',
        },
        target: { dev: 'vda' },
      },
    ],
  },
}
