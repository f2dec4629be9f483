import { execFileSync } from 'node:child_process'
import { chown, mkdir, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Domain } from '../api/domain/domain.ts'
import { launcherResources } from '../api/launcher-resources.ts'
import { bundledCapabilities as capabilities } from '../completion/capabilities.ts'
import { fillDefaults } from '../completion/defaults/defaults.ts'
import { guestDisk } from '../test/libvirt/guest.ts'
import { startLauncher } from '../test/libvirt/launcher.ts'
import { makeMemoryCgroup } from '../test/libvirt/memory-cgroup.ts'
import { libvirtRootfs, uid as launcherUid } from '../test/libvirt/rootfs.ts'

/**
 * The peak memory of a VM as a share of its launcher pod's limit, without the page cache: runs the real launcher,
 * libvirt and QEMU in a cgroup with that limit until 5 s after the guest began to touch all its memory. Requires root:
 *
 *     LIBVIRT_ROOTFS=$(make rootfs) node bench/launcher-memory.ts [PART OF A NAME]
 */
const uid = '5b0c0f4e-6d2a-4c2b-9a53-000000000001'
const size = (unit: string, value: number) => ({ unit, value })
const immediate: Domain = { memoryBacking: { allocation: { mode: 'immediate' } } }
const cell = (unit: string, memory: number): Domain => ({
  cpu: { numa: { cells: [{ id: 0, cpus: '0', memory, unit }] } },
})
type Disk = NonNullable<NonNullable<Domain['devices']>['disks']>[number]

const disks = (count: number, type: 'raw' | 'qcow2'): Disk[] =>
  Array.from({ length: count }, (_, index) => ({
    type: 'volume',
    device: 'disk',
    driver: { name: 'qemu', type },
    source: { volume: `disk-${index}` },
    target: { dev: `vd${index < 26 ? '' : 'a'}${String.fromCharCode(97 + (index % 26))}`, bus: 'virtio' },
  }))

const interfaces = (count: number) =>
  Array.from({ length: count }, () => ({ type: 'user' as const, model: { type: 'virtio' } }))

const tpm = { model: 'tpm-crb' as const, backend: { type: 'emulator' as const, version: '2.0' as const } }
/** Debian's, because the bundled profile has the paths of another distribution. */
const uefi: Domain = {
  os: {
    type: { os: 'hvm', arch: 'x86_64', machine: 'q35' },
    loader: { readonly: true, secure: true, type: 'pflash', value: '/usr/share/OVMF/OVMF_CODE_4M.ms.fd' },
    nvram: { template: '/usr/share/OVMF/OVMF_VARS_4M.ms.fd' },
  },
  features: { acpi: {}, smm: { state: true } },
}

const vms: readonly (readonly [name: string, domain: Domain])[] = [
  ['64 MiB', { memory: size('MiB', 64) }],
  ['1 GiB, allocated at once', { memory: size('GiB', 1), ...immediate }],
  ['64 MiB, a NUMA cell of 1 GiB', { memory: size('MiB', 64), ...cell('GiB', 1), ...immediate }],
  [
    '64 MiB, a module of 256 MiB',
    {
      maxMemory: { ...size('GiB', 4), slots: 2 },
      ...cell('MiB', 64),
      ...immediate,
      devices: { memories: [{ model: 'dimm', target: { size: size('MiB', 256), node: 0 } }] },
    },
  ],
  ['64 MiB, 64 I/O threads', { memory: size('MiB', 64), iothreads: 64 }],
  ['64 MiB, 64 virtual CPUs', { memory: size('MiB', 64), vcpu: { value: 64 } }],
  [
    '64 MiB, 512 MiB for video',
    {
      memory: size('MiB', 64),
      devices: { videos: [{ model: { type: 'vga', vram: 524_288 } }], graphics: [{ type: 'vnc', autoport: true }] },
    },
  ],
  ['64 MiB, tbCache 1 GiB', { memory: size('MiB', 64), features: { acpi: {}, tcg: { tbCache: size('GiB', 1) } } }],
  ['64 MiB, 30 raw disks', { memory: size('MiB', 64), devices: { disks: disks(30, 'raw') } }],
  ['64 MiB, 30 qcow2 disks', { memory: size('MiB', 64), devices: { disks: disks(30, 'qcow2') } }],
  ['64 MiB, a TPM', { memory: size('MiB', 64), devices: { tpms: [tpm] } }],
  [
    '256 MiB, UEFI with Secure Boot and a TPM, allocated at once',
    { memory: size('MiB', 256), ...uefi, ...immediate, devices: { tpms: [tpm] } },
  ],
  [
    '1 GiB, UEFI and a TPM, allocated at once',
    { memory: size('GiB', 1), ...uefi, ...immediate, devices: { tpms: [tpm] } },
  ],
  [
    '1 GiB, 64 virtual CPUs, UEFI and a TPM, allocated at once',
    { memory: size('GiB', 1), vcpu: { value: 64 }, ...uefi, ...immediate, devices: { tpms: [tpm] } },
  ],
  [
    '4 GiB, 16 virtual CPUs, UEFI and a TPM, allocated at once',
    { memory: size('GiB', 4), vcpu: { value: 16 }, ...uefi, ...immediate, devices: { tpms: [tpm] } },
  ],
  [
    '8 GiB, 64 virtual CPUs, UEFI and a TPM, allocated at once',
    { memory: size('GiB', 8), vcpu: { value: 64 }, ...uefi, ...immediate, devices: { tpms: [tpm] } },
  ],
  [
    '16 GiB, hardly used, 16 virtual CPUs, UEFI and a TPM',
    { memory: size('GiB', 16), vcpu: { value: 16 }, ...uefi, devices: { tpms: [tpm] } },
  ],
  [
    '64 GiB, hardly used, 64 virtual CPUs, UEFI and a TPM',
    { memory: size('GiB', 64), vcpu: { value: 64 }, ...uefi, devices: { tpms: [tpm] } },
  ],
  ['64 MiB, 40 interfaces', { memory: size('MiB', 64), devices: { interfaces: interfaces(40) } }],
  ['64 MiB, 80 interfaces', { memory: size('MiB', 64), devices: { interfaces: interfaces(80) } }],
]

const boot: Disk = {
  type: 'volume',
  device: 'disk',
  driver: { name: 'qemu', type: 'raw' },
  source: { volume: 'boot' },
  target: { dev: 'sda', bus: 'sata' },
  boot: { order: 1 },
}

const mebibytes = (bytes: number) => Math.ceil(bytes / 2 ** 20)

async function measure(given: Domain) {
  const written: Domain = {
    type: 'qemu',
    os: { type: { os: 'hvm', arch: 'x86_64', machine: 'q35' } },
    features: { acpi: {} },
    ...given,
    devices: { ...given.devices, disks: [boot, ...(given.devices?.disks ?? [])] },
  }
  const { domain } = fillDefaults(written, { capabilities, entropy: { uid }, name: 'testvm' })
  const limit = Number(launcherResources({ domain }).limits['memory'])
  const cgroup = await makeMemoryCgroup(limit)
  const launcher = await startLauncher({ cgroup, oomScoreAdj: 990 })
  let peak = 0
  const sample = async () => {
    peak = Math.max(peak, await cgroup.usedBytes())
  }
  const timer = setInterval(() => void sample(), 20)
  try {
    const volumes = (domain.devices?.disks ?? []).flatMap(({ source }) => source?.volume ?? [])
    for (const [index, name] of volumes.entries())
      await makeDisk(launcher.volumes, name, written.devices?.disks?.[index])
    await launcher.put({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'testvm', namespace: 'default', uid },
      spec: { domain, volumes: volumes.map((name) => ({ name, persistentVolumeClaim: { claimName: name } })) },
    })
    await sleep(5000)
    const { phase, message = '' } = await launcher.report()
    return { phase, message, limit, peak }
  } finally {
    clearInterval(timer)
    await launcher.stop()
    await sleep(500)
    await cgroup.remove()
  }
}

async function makeDisk(directory: string, name: string, disk: Disk | undefined): Promise<void> {
  const folder = join(directory, name)
  const path = join(folder, 'disk.img')
  await mkdir(folder)
  if (disk?.driver?.type === 'qcow2') {
    const rootfs = libvirtRootfs()
    execFileSync('chroot', [rootfs, 'qemu-img', 'create', '-q', '-f', 'qcow2', path.slice(rootfs.length), '100G'])
  } else await writeFile(path, guestDisk('touchMemory'))
  for (const each of [folder, path]) await chown(each, launcherUid, launcherUid)
}

console.log('| VM | limit, MiB | most used, MiB | left |\n| --- | ---: | ---: | ---: |')
for (const [name, domain] of vms) {
  if (!name.includes(process.argv.slice(2).join(' '))) continue
  const { phase, message, limit, peak } = await measure(domain)
  const left = `${Math.round((1 - peak / limit) * 100)} %`
  console.log(
    `| ${[name, ...(phase === 'Running' ? [] : [phase, message])].join(', ')} | ${mebibytes(limit)} | ${mebibytes(peak)} | ${left} |`,
  )
}
