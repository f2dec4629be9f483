import { chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { apiVersion } from '../../api/object.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { bundledCapabilities } from '../../completion/capabilities.ts'
import { complete } from '../../completion/complete.ts'
import { readDescriptors } from '../../launcher/profile/descriptors.ts'
import { readFirmware } from '../../launcher/profile/firmware.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { eventually } from '../until.ts'
import { makeEfiDisk } from './efi-disk.ts'
import { guestDisk } from './guest.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { libvirtRootfs, uid as launcherUid } from './rootfs.ts'

/** UEFI firmware and TPMs in a launcher, as admission completes them on nodes with the launcher's image. */
let launcher: RunningLauncher

afterEach(() => launcher.stop())

const uid = '5b0c0f4e-6d2a-4c2b-9a53-000000000003'
const serials = [{ type: 'pty' as const }]
/** Emulated UEFI takes 6 s, and several times that on a busy machine. */
const bootMs = 240_000

async function completed(domain: Domain, volumes: readonly string[] = []): Promise<VirtualMachine> {
  const vm: VirtualMachine = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { name: 'testvm', namespace: 'default', uid },
    spec: {
      domain: { type: 'qemu', ...domain },
      volumes: volumes.map((name) => ({ name, persistentVolumeClaim: { claimName: name } })),
    },
  }
  const texts = await readDescriptors(libvirtRootfs())
  const firmware = [...texts].flatMap(([name, text]) => readFirmware(name, text))
  const result = complete(vm, {
    presets: createCandidates([]),
    namespace: { name: 'default', labels: {} },
    capabilities: { ...bundledCapabilities, firmware },
    entropy: { uid },
  })
  if (result.outcome === 'refused') throw new Error(JSON.stringify(result.causes))
  return result.vm
}

type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]

const disk = (volume: string, dev: string, order: number): Disk => ({
  type: 'volume',
  device: 'disk',
  driver: { name: 'qemu', type: 'raw' },
  source: { volume },
  target: { dev, bus: 'virtio' },
  boot: { order },
})

/** Creates `disk.img` in a volume of the pod. */
async function fillVolume(name: string, write: (path: string) => Promise<void>): Promise<void> {
  const directory = join(launcher.volumes, name)
  const path = join(directory, 'disk.img')
  await mkdir(directory)
  await write(path)
  for (const each of [directory, path]) await chown(each, launcherUid, launcherUid)
}

/** Starts the VM, and returns what it has printed when that matches. */
async function printed(vm: VirtualMachine, expected: RegExp): Promise<string> {
  const { phase, message } = await launcher.put(vm)
  expect({ phase, message }).toEqual({ phase: 'Running', message: undefined })
  const console = await launcher.console()
  let text = ''
  console.on('data', (chunk: Buffer) => (text += chunk.toString()))
  await eventually(`the console prints ${expected}`, async () => expected.test(text), bootMs)
  return text
}

test(
  'firmware: efi enforces Secure Boot: an unsigned boot loader is refused, and a signed one starts',
  async () => {
    launcher = await startLauncher()
    await fillVolume('unsigned', (path) => makeEfiDisk(path, 'unsigned'))
    await fillVolume('signed', (path) => makeEfiDisk(path, 'signed'))
    const vm = await completed(
      {
        memory: { unit: 'MiB', value: 256 },
        os: { firmware: 'efi', type: { os: 'hvm', machine: 'q35' } },
        features: { acpi: {} },
        devices: { serials, disks: [disk('unsigned', 'vda', 1), disk('signed', 'vdb', 2)] },
      },
      ['unsigned', 'signed'],
    )
    const text = await printed(vm, /GNU GRUB/)
    expect(text).toMatch(/failed to load Boot0001 .*: Access Denied/)
    expect((await launcher.report()).specDrift).toBeUndefined()
  },
  bootMs,
)

test(
  'a TPM has measured the firmware when the guest reads it',
  async () => {
    launcher = await startLauncher()
    await fillVolume('root', (path) => writeFile(path, guestDisk('readTpm')))
    const tpms = [{ model: 'tpm-crb' as const, backend: { type: 'emulator' as const, version: '2.0' as const } }]
    const vm = await completed(
      {
        memory: { unit: 'MiB', value: 32 },
        os: { type: { os: 'hvm', machine: 'pc' } },
        devices: { serials, tpms, disks: [disk('root', 'vda', 1)] },
      },
      ['root'],
    )
    expect(await printed(vm, /^[0-9A-F]{8} (?!0{64})[0-9A-F]{64}\r?$/m)).toBeDefined()
  },
  bootMs,
)
