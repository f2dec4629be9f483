/** Presets and VMs that the cluster's tests share, as short as users write them. */

const kind = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine' } as const

/** As in the examples: every VM has a serial console and ACPI for shutdown. */
export const presets = [
  {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name: 'serial-console' },
    spec: { selector: {}, domain: { devices: { serials: [{ type: 'pty', target: { port: 0 } }] } } },
  },
  {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachinePreset',
    metadata: { name: 'power-button' },
    spec: { selector: {}, domain: { features: { acpi: {} } } },
  },
]

/** A VM with the demo guest on the example's iSCSI target. */
export function guest(name: string, spec: object = {}, labels: Record<string, string> = {}): object {
  const source = {
    protocol: 'iscsi',
    name: 'iqn.2017-01.io.kubevirt:sn.42/2',
    host: { name: 'iscsi-demo-target.default', port: '3260' },
  }
  return {
    ...kind,
    metadata: { name, labels },
    spec: {
      domain: {
        type: 'qemu',
        memory: { unit: 'MB', value: 64 },
        os: { type: { os: 'hvm' } },
        devices: {
          disks: [
            { type: 'network', device: 'disk', driver: { name: 'qemu', type: 'raw' }, source, target: { dev: 'vda' } },
          ],
        },
      },
      ...spec,
    },
  }
}

/** A VM without a boot device: it runs and ignores shutdowns. */
export function deaf(name: string, spec: object = {}, domain: object = {}, metadata: object = {}): object {
  return {
    ...kind,
    metadata: { ...metadata, name },
    spec: {
      domain: { type: 'qemu', memory: { unit: 'MiB', value: 32 }, os: { type: { os: 'hvm' } }, ...domain },
      ...spec,
    },
  }
}
