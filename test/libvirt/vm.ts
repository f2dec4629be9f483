/** Of the VM of a test, which is alone in its pod. */
export const vmUid = '5b0c0f4e-6d2a-4c2b-9a53-000000000001'

/** A small VM. @param domain what its domain has more */
export const smallVm = (domain: object = {}, spec: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'testvm', namespace: 'default', uid: vmUid },
  spec: {
    domain: {
      type: 'qemu',
      memory: { unit: 'MiB', value: 32 },
      os: { type: { os: 'hvm', arch: 'x86_64', machine: 'pc' } },
      features: { acpi: {} },
      ...domain,
    },
    ...spec,
  },
})

export const volumeDisk = (volume: string, dev: string, type = 'raw') => ({
  type: 'volume',
  device: 'disk',
  driver: { name: 'qemu', type },
  source: { volume },
  target: { dev, bus: 'virtio' },
})

/** A VM with a serial console and one disk. @param volume the volume `root`, without its name */
export const vmOnVolume = (volume: object, disk: object = volumeDisk('root', 'vda')) =>
  smallVm({ devices: { serials: [{ type: 'pty' }], disks: [disk] } }, { volumes: [{ name: 'root', ...volume }] })
