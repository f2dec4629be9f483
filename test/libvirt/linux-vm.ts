import type { Domain } from '../../api/domain/domain.ts'
import { apiVersion } from '../../api/object.ts'
import type { VirtualMachine, VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { createCandidates } from '../../presets/candidates.ts'
import type { CompiledPreset } from '../../presets/compile.ts'
import { vmUid as uid } from './vm.ts'

/** A completed VM with the Linux guest, whose volume `root` must have its disk, and which runs the script. */
export function linuxVm(
  script: string,
  { devices, ...domain }: Partial<Domain>,
  { volumes = [], ...spec }: Partial<VirtualMachineSpec> = {},
  presets: readonly CompiledPreset[] = [],
): VirtualMachine {
  const given: VirtualMachine = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { name: 'testvm', namespace: 'default', uid },
    spec: {
      ...spec,
      domain: {
        type: 'qemu',
        memory: { unit: 'MiB', value: 256 },
        os: { type: { os: 'hvm', machine: 'q35' } },
        features: { acpi: {} },
        ...domain,
        devices: {
          disks: [
            { type: 'volume', source: { volume: 'root' }, target: { dev: 'vda', bus: 'virtio' } },
            { type: 'volume', device: 'cdrom', source: { volume: 'seed' }, target: { dev: 'sda', bus: 'sata' } },
          ],
          serials: [{ type: 'pty' }],
          ...devices,
        },
      },
      volumes: [
        { name: 'root', image: { reference: 'linux-guest' } },
        { name: 'seed', cloudInit: { userData: script } },
        ...volumes,
      ],
    },
  }
  const namespace = { name: 'default', labels: {} }
  const result = complete(given, { presets: createCandidates(presets), namespace, capabilities, entropy: { uid } })
  if (result.outcome === 'refused') throw new Error(JSON.stringify(result.causes))
  return result.vm
}
