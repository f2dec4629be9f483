import { chown, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { afterEach, describe, expect, test } from 'vitest'
import type { Domain } from '../../api/domain/domain.ts'
import { launcherResources } from '../../api/launcher-resources.ts'
import { eventually } from '../until.ts'
import { guestDisk } from './guest.ts'
import { type RunningLauncher, startLauncher } from './launcher.ts'
import { type MemoryCgroup, makeMemoryCgroup } from './memory-cgroup.ts'
import { uid as launcherUid } from './rootfs.ts'

const uid = '5b0c0f4e-6d2a-4c2b-9a53-000000000001'
const mebibytes = (count: number) => count * 2 ** 20

let cgroup: MemoryCgroup
let launcher: RunningLauncher

afterEach(async () => {
  await launcher.stop()
  await cgroup.remove()
})

const domainOf = (memory: number, more: Domain = {}): Domain => ({
  type: 'qemu',
  memory: { unit: 'MiB', value: memory },
  os: { type: { os: 'hvm', arch: 'x86_64', machine: 'pc' } },
  features: { acpi: {} },
  ...more,
  devices: {
    disks: [
      {
        type: 'volume',
        device: 'disk',
        driver: { name: 'qemu', type: 'raw' },
        source: { volume: 'root' },
        target: { dev: 'vda', bus: 'virtio' },
      },
    ],
  },
})

const limitOf = (memory: number) => Number(launcherResources({ domain: domainOf(memory) }).limits['memory'])

async function start(limitBytes: number, oomScoreAdj: number): Promise<void> {
  cgroup = await makeMemoryCgroup(limitBytes)
  launcher = await startLauncher({ cgroup, oomScoreAdj })
  const directory = join(launcher.volumes, 'root')
  const path = join(directory, 'disk.img')
  await mkdir(directory)
  await writeFile(path, guestDisk('touchMemory'))
  for (const each of [directory, path]) await chown(each, launcherUid, launcherUid)
}

const put = (domain: object) =>
  launcher.put({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'testvm', namespace: 'default', uid },
    spec: { domain, volumes: [{ name: 'root', persistentVolumeClaim: { claimName: 'disk' } }] },
  })

describe('a guest that needs more memory than the limit of its pod', () => {
  test.each<[name: string, limitBytes: number, guestMemory: number, oomScoreAdj: number]>([
    ['is killed, not its launcher, even where the launcher is larger than QEMU', mebibytes(128), 64, 0],
    [
      'is killed, not its launcher, in the pod of a small VM with the score that the kubelet gives it',
      limitOf(64),
      512,
      990,
    ],
    // While QEMU exits, its memory still counts, and the kernel may choose a second victim
    // (docs/decisions/launcher-memory.md).
  ])('%s', { retry: 4 }, async (_, limitBytes, guestMemory, oomScoreAdj) => {
    await start(limitBytes, oomScoreAdj)
    await put(domainOf(guestMemory))
    const report = await launcher.reported('it ended', ({ exit }) => exit !== undefined)
    expect(report).toMatchObject({ phase: 'Shutoff', reason: 'OOMKilled', exit: 'Failed' })
    expect(report.message).toContain(`the launcher pod reached its limit of ${Math.ceil(limitBytes / 2 ** 20)} MiB`)
    await launcher.ask('POST', '/final')
    expect(await launcher.exitCode).toBe(1)
  })

  test('is reported as OOMKilled at its start as well', async () => {
    await start(limitOf(64), 990)
    const domain = domainOf(512, { memoryBacking: { allocation: { mode: 'immediate' } } })
    expect(await put(domain)).toMatchObject({ phase: 'Shutoff', reason: 'OOMKilled', exit: 'Failed' })
  })
})

test('a guest that touches all its memory stays within the limit of its pod', async () => {
  await start(limitOf(256), 990)
  await put(domainOf(256))
  const isTouched = async () => (await cgroup.usedBytes()) > mebibytes(300)
  await eventually('the guest has touched its memory', isTouched, 240_000)
  expect(await launcher.report()).toMatchObject({ phase: 'Running' })
})

test('QEMU and libvirtd have a higher score than the launcher, and no higher than necessary', async () => {
  await start(limitOf(256), 100)
  await put(domainOf(256))
  const scores = async (command: string) => {
    const pids = await launcher.pids(command)
    return Promise.all(pids.map(async (pid) => Number(await readFile(`/proc/${pid}/oom_score_adj`, 'utf8'))))
  }
  const raised = 100 + Math.ceil((128 * 1000) / (limitOf(256) / 2 ** 20))
  expect(await scores('virt-launcher')).toEqual([100])
  expect(await scores('libvirtd')).toEqual([raised])
  expect(await scores('qemu-system-x86')).toEqual([raised])
})
