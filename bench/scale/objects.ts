import type { VirtualMachineConfig } from '../../api/config.ts'
import type { Preset } from '../../api/preset.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { KubeObject } from '../../runtime/resource.ts'

/** The namespace of everything that is measured. */
export const namespace = 'default'

export function vm(name: string): VirtualMachine {
  const devices = {
    disks: [{ device: 'disk', type: 'volume', source: { volume: 'disk' }, target: { dev: 'vda', bus: 'virtio' } }],
    interfaces: [{ type: 'user' }],
  }
  return {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { namespace, name },
    spec: {
      domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } }, devices },
      volumes: [{ name: 'disk', emptyDisk: { capacity: '1Gi' } }],
    },
  } as VirtualMachine
}

/** Bare pods with the request of a VM's pod. */
export function deployment(replicas: number): KubeObject {
  const labels = { app: 'bare' }
  const requests = { cpu: '100m', memory: '64Mi' }
  const containers = [{ name: 'compute', image: 'launcher:1', resources: { requests } }]
  return {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    metadata: { namespace, name: 'bare' },
    spec: {
      replicas,
      selector: { matchLabels: labels },
      template: { metadata: { labels }, spec: { containers } },
    },
  } as KubeObject
}

/** A config whose VM starts when it is asked for. */
export const config = (name: string): VirtualMachineConfig => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachineConfig',
  metadata: { namespace, name },
  spec: { template: { spec: vm(name).spec } },
})

/** Selects every VM. */
export const presetOfAll = (title: string): Preset => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'ClusterVirtualMachinePreset',
  metadata: { name: 'all' },
  spec: { selector: {}, domain: { title } },
})
