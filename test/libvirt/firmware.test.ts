import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chown, copyFile, cp, mkdir, mkdtemp, readFile, readdir, rm, stat, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { afterEach, expect, onTestFinished, test } from 'vitest'
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
import { linuxDisk } from './linux-disk.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { libvirtRootfs, uid as launcherUid } from './rootfs.ts'

/** UEFI firmware and TPMs in a launcher, as admission completes them on nodes with the launcher's image. */
let launcher: RunningLauncher

afterEach(() => launcher.stop())

const uid = '5b0c0f4e-6d2a-4c2b-9a53-000000000003'
const serials = [{ type: 'pty' as const }]
/** Emulated, UEFI takes 10 s and Linux 20 s, and ten times that on a busy machine. */
const bootMs = 900_000

async function completed(domain: Domain, volumes: readonly string[] = []): Promise<VirtualMachine> {
  const vm: VirtualMachine = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { name: 'testvm', namespace: 'default', uid },
    spec: {
      domain: { type: 'qemu', ...domain },
      volumes: volumes.map((name) => ({ name, persistentVolumeClaim: { claimName: name } })),
      ...(volumes.includes('state') ? { deviceStateVolume: 'state' } : {}),
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

const disk = (volume: string, dev: string, order: number, type: 'raw' | 'qcow2' = 'raw'): Disk => ({
  type: 'volume',
  device: 'disk',
  driver: { name: 'qemu', type },
  source: { volume },
  target: { dev, bus: 'virtio' },
  boot: { order },
})

/** Creates a file in a volume of the pod, and returns its path. */
async function fillVolume(volume: string, name: string, write: (path: string) => Promise<void>): Promise<string> {
  const directory = join(launcher.volumes, volume)
  const path = join(directory, name)
  await mkdir(directory)
  await write(path)
  for (const each of [directory, path]) await chown(each, launcherUid, launcherUid)
  return path
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
  'firmware: efi enforces Secure Boot: a loader without a signature or with that of another key is refused, a signed Linux boots',
  async () => {
    launcher = await startLauncher()
    const loaders = ['unsigned', 'otherKey', 'signed'] as const
    for (const loader of loaders)
      await fillVolume(loader.toLowerCase(), 'disk.img', (path) => makeEfiDisk(path, loader))
    await fillVolume('linux', 'disk.img', (path) => copyFile(linuxDisk(), path))
    // As an earlier start of the VM has left it.
    const template = join(libvirtRootfs(), '/usr/share/OVMF/OVMF_VARS_4M.ms.fd')
    const variables = await fillVolume('state', 'testvm_VARS.fd', (path) => copyFile(template, path))
    const { ino } = await stat(variables)
    const vm = await completed(
      {
        memory: { unit: 'MiB', value: 256 },
        os: { firmware: 'efi', type: { os: 'hvm', machine: 'q35' } },
        features: { acpi: {} },
        devices: {
          serials,
          disks: [
            disk('unsigned', 'vda', 1),
            disk('otherkey', 'vdb', 2),
            disk('signed', 'vdc', 3),
            disk('linux', 'vdd', 4, 'qcow2'),
          ],
        },
      },
      ['unsigned', 'otherkey', 'signed', 'linux', 'state'],
    )
    const text = await printed(vm, /guest: \S+ is up/)
    expect(text.match(/Secure boot \w+|BdsDxe: (failed to load|starting) Boot\d+|Access Denied/g)).toEqual([
      'BdsDxe: failed to load Boot0001',
      'Access Denied',
      'BdsDxe: failed to load Boot0002',
      'Access Denied',
      'BdsDxe: starting Boot0003',
      'Secure boot enabled',
    ])
    expect((await launcher.report()).specDrift).toEqual([])
    expect((await stat(variables)).ino).toBe(ino)
    expect(await readFile(variables)).not.toEqual(await readFile(template))
  },
  bootMs,
)

const vmWithTpm = () => {
  const tpms = [{ model: 'tpm-crb' as const, backend: { type: 'emulator' as const, version: '2.0' as const } }]
  return completed(
    {
      memory: { unit: 'MiB', value: 32 },
      os: { type: { os: 'hvm', machine: 'pc' } },
      // SeaBIOS finds the TPM by its ACPI table.
      features: { acpi: {} },
      devices: { serials, tpms, disks: [disk('root', 'vda', 1)] },
    },
    ['root', 'state'],
  )
}

/** Starts a launcher for it, whose claim for the state is a copy of `state`. */
async function startWithState(state: string | undefined): Promise<void> {
  launcher = await startLauncher()
  await fillVolume('root', 'disk.img', (path) => writeFile(path, guestDisk('readTpm')))
  await mkdir(inState())
  if (state !== undefined) await cp(state, inState(), { recursive: true })
  await promisify(execFile)('chown', ['-R', `${launcherUid}:${launcherUid}`, inState()])
}

const inState = (...names: string[]) => join(launcher.volumes, 'state', ...names)

/** How often the TPM was reset in its life, when its guest has started. */
async function resets(): Promise<number> {
  const text = await printed(await vmWithTpm(), /^[0-9A-F]{8} (?!0{64})[0-9A-F]{64}\r?$/m)
  return parseInt(/^([0-9A-F]{8}) (?!0{64})[0-9A-F]{64}\r?$/m.exec(text)?.[1] ?? '', 16)
}

/** Returns a copy of the claim, and ends the launcher, as a failure of the node does. */
async function copiedState(): Promise<string> {
  const copy = await mkdtemp(join(tmpdir(), 'state-'))
  onTestFinished(() => rm(copy, { recursive: true }))
  await cp(inState(), copy, { recursive: true })
  await launcher.stop()
  return copy
}

test(
  'a TPM has measured the firmware, and keeps its state on a claim',
  async () => {
    await startWithState(undefined)
    const first = await resets()
    expect(await readdir(inState())).toEqual(['testvm_TPM'])
    await startWithState(await copiedState())
    expect(await resets()).toBe(first + 1)
  },
  bootMs,
)

test(
  'a TPM whose first start was killed is made again, with all that a new one has',
  async () => {
    const bytes = async () => (await stat(inState('testvm_TPM', 'tpm2-00.permall'))).size
    await startWithState(undefined)
    await launcher.ask('PUT', '/vm', await vmWithTpm())
    while (!existsSync(inState('testvm_TPM', 'tpm2-00.permall'))) await sleep(1)
    for (const process of ['libvirtd', 'swtpm_setup', 'swtpm']) await launcher.signal(process, 'SIGSTOP')
    const state = await copiedState()
    const half = (await stat(join(state, 'testvm_TPM', 'tpm2-00.permall'))).size
    await startWithState(undefined)
    const first = await resets()
    const whole = await bytes()
    await launcher.stop()
    await startWithState(state)
    expect(await resets()).toBe(first)
    const names = (await readdir(inState())).map((name) => name.replace(/-\w{6}$/, '-X')).toSorted()
    expect([names, half < whole, await bytes()]).toEqual([['TPM.unfinished-X', 'testvm_TPM'], true, whole])
  },
  bootMs,
)
