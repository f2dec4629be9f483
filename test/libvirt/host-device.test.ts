import { readFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { apiVersion } from '../../api/object.ts'
import type { PresetSpec } from '../../api/preset.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { bundledCapabilities as capabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { compilePreset } from '../../presets/compile.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'

/** A VM with a device that a preset of the cluster grants, in a pod to which a device plugin has allocated it. */
let launcher: RunningLauncher

afterEach(() => launcher.stop())

const uid = '5b0c0f4e-6d2a-4c2b-9a53-000000000004'

function granted(type: 'pci' | 'usb' | 'mdev', more: object = {}): VirtualMachine {
  const spec: PresetSpec = {
    selector: {},
    hostDevices: [{ name: 'card', resourceName: 'example.com/card' }],
    domain: { devices: { hostdevs: [{ type, alias: { name: 'ua-card' }, ...more }] } },
  }
  const compiled = compilePreset({ apiVersion, kind: 'ClusterVirtualMachinePreset', metadata: { name: 'card' }, spec })
  if ('quarantined' in compiled) throw new Error(JSON.stringify(compiled.quarantined.causes))
  const domain = {
    type: 'qemu',
    memory: { unit: 'MiB', value: 32 },
    os: { type: { os: 'hvm', machine: 'q35' } },
  } as const
  const result = complete(
    { apiVersion, kind: 'VirtualMachine', metadata: { name: 'testvm', namespace: 'default', uid }, spec: { domain } },
    {
      presets: createCandidates([compiled.preset]),
      namespace: { name: 'default', labels: {} },
      capabilities,
      entropy: { uid },
    },
  )
  if (result.outcome === 'refused') throw new Error(JSON.stringify(result.causes))
  return result.vm
}

/** The definition that libvirt has stored. */
async function definedHostdev(): Promise<string | undefined> {
  const file = join(await launcher.inPod('private'), 'config/libvirt/qemu/testvm.xml')
  return /<hostdev[^]*<\/hostdev>/.exec(await readFile(file, 'utf8'))?.[0].replaceAll(/\s*\n\s*/g, '')
}

const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'
const card = 'EXAMPLE_COM_CARD'

/** No machine has devices with these addresses, and a machine without IOMMU or USB has none at all. */
test.each<[string, VirtualMachine, { readonly [name: string]: string }, string, RegExp]>([
  [
    'a PCI device',
    granted('pci'),
    { [`PCIDEVICE_${card}`]: 'fffe:fd:1e.5' },
    "<source><address domain='0xfffe' bus='0xfd' slot='0x1e' function='0x5'/></source>",
    /fffe:fd:1e\.5|host doesn't support passthrough of host PCI devices/,
  ],
  [
    'a mediated device',
    granted('mdev', { model: 'vfio-pci' }),
    { [`MDEV_PCI_RESOURCE_${card}`]: uuid },
    `<source><address uuid='${uuid}'/></source>`,
    new RegExp(`${uuid}|requires VFIO support`),
  ],
  [
    'a USB device',
    granted('usb'),
    { [`USB_RESOURCE_${card}`]: '123:45' },
    "<source><address bus='123' device='45'/></source>",
    /123.*45|\/sys\/bus\/usb\/devices/,
  ],
])(
  'libvirt is given %s that the node has allocated, and refuses to start without it',
  async (_, vm, env, source, refusal) => {
    launcher = await startLauncher({ env })
    const { exit, message } = await launcher.put(vm)
    expect({ exit, message, hostdev: await definedHostdev() }).toEqual({
      exit: 'Failed',
      message: expect.stringMatching(refusal),
      hostdev: expect.stringContaining(source),
    })
  },
)
