import type { Capabilities } from '../api/capabilities.ts'
import type { NodeProfile, Taint } from '../api/node-profile.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'

/** A node with the bundled profile, except for what is given. */
export const nodeProfile = (
  name: string,
  capabilities: Capabilities = bundledCapabilities,
  more: { readonly labels?: { readonly [key: string]: string }; readonly taints?: readonly Taint[] } = {},
): NodeProfile => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'NodeProfile',
  metadata: { name, labels: { 'kubernetes.io/hostname': name, ...more.labels } },
  spec: {
    libvirtVersion: '11.3.0',
    kvm: capabilities.accelerators.kvm !== undefined,
    taints: more.taints ?? [],
    capabilities,
  },
})

/** The bundled profile without machine types and emulators that are newer than these versions of QEMU. */
export const olderCapabilities = (...dropped: readonly string[]): Capabilities => ({
  ...bundledCapabilities,
  version: '9.2.0',
  machines: bundledCapabilities.machines
    .filter(({ name }) => !dropped.some((version) => name.endsWith(`-${version}`)))
    .map((machine) => {
      if (machine.name === 'pc-i440fx-9.2') return { ...machine, alias: 'pc', isDefault: true }
      return machine.name === 'pc-q35-9.2' ? { ...machine, alias: 'q35' } : machine
    }),
})

/** The bundled profile of a node without /dev/kvm. */
export const emulatedCapabilities: Capabilities = {
  ...bundledCapabilities,
  accelerators: { ...(bundledCapabilities.accelerators.qemu && { qemu: bundledCapabilities.accelerators.qemu }) },
}
