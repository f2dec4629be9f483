import { closeSync, openSync, readSync, statSync, truncateSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { run } from '../../cluster/command.ts'
import { claimVolume, imageVolume, type Vms } from './vms.ts'

/** MiB/s of each operation of `disk-io`: `sequentialRead` and so on. */
export type Throughput = Readonly<Record<string, number>>

export interface DiskThroughput {
  readonly disk: string
  /** In the guest, without its page cache. */
  readonly guest: Throughput
  /** On the node, the file system or the device that has the disk: without its page cache, and with it, as QEMU. */
  readonly nodeDirect: Throughput
  readonly nodeCached: Throughput
  readonly guestToNodeDirect: Throughput
  readonly guestToNodeCached: Throughput
}

const mebibyte = 1024 * 1024
/** The part of each disk that is read and written is smaller. */
const diskBytes = 256 * mebibyte
/** On the disk with the program; where the guest writes what the program prints. */
const resultsAt = 8 * mebibyte
const disks = ['overlay', 'emptyDisk', 'fileClaim', 'blockClaim'] as const
/** The root disk is vda, and the one with the program comes last. */
const guestDevices = ['vdb', 'vdc', 'vdd', 'vde'] as const
const programDevice = 'vdf'

/** Reads and writes each kind of disk in a Linux guest, and the same beside it on the node. */
export async function measureIo(vms: Vms, reference: string, seconds: number): Promise<DiskThroughput[]> {
  const program = join(vms.directory, 'disk-io')
  await run(['go', 'build', '-trimpath', '-ldflags', '-s -w', '-o', program, '.'], {
    directory: join(import.meta.dirname, 'disk-io'),
    environment: { CGO_ENABLED: '0', GOFLAGS: '-mod=mod' },
  })
  const fileDisk = join(await vms.claimDirectory('file'), 'disk.img')
  const programDisk = join(await vms.claimDirectory('program'), 'disk.img')
  const deviceFile = join(vms.directory, 'device')
  const nodeFile = join(vms.directory, 'on-the-node')
  for (const file of [fileDisk, deviceFile, nodeFile]) createSparse(file, diskBytes)
  await run(['cp', program, programDisk])
  truncateSync(programDisk, 2 * resultsAt)
  await run(['chown', '107:107', fileDisk, programDisk])
  const device = await vms.claimDevice('device', deviceFile)

  const onNode = async (path: string, ...flags: string[]): Promise<Throughput> =>
    JSON.parse(await run([program, ...flags, '-seconds', `${seconds}`, path]))
  const node = [
    { path: nodeFile, direct: await onNode(nodeFile, '-direct'), cached: await onNode(nodeFile) },
    { path: device, direct: await onNode(device, '-direct'), cached: await onNode(device) },
  ] as const

  await vms.start('io', [
    imageVolume(reference),
    // Linux takes any disk with its own file system for its root.
    imageVolume(await vms.demoImage(), 'overlay'),
    { name: 'empty', emptyDisk: { capacity: `${diskBytes}` } },
    claimVolume('file'),
    claimVolume('device'),
    claimVolume('program'),
    { name: 'seed', cloudInit: { userData: userData(seconds) } },
  ])
  const guest = await resultsOf(programDisk)
  await vms.remove('io')

  return disks.map((disk, index) => {
    const own = guest[index] ?? {}
    const { direct, cached } = disk === 'blockClaim' ? node[1] : node[0]
    return {
      disk,
      guest: own,
      nodeDirect: direct,
      nodeCached: cached,
      guestToNodeDirect: divided(own, direct),
      guestToNodeCached: divided(own, cached),
    }
  })
}

function createSparse(path: string, bytes: number): void {
  writeFileSync(path, '')
  truncateSync(path, bytes)
}

const userData = (seconds: number): string =>
  [
    '#cloud-config',
    'runcmd:',
    `- dd if=/dev/${programDevice} of=/root/disk-io bs=1M count=${resultsAt / mebibyte}`,
    '- chmod +x /root/disk-io',
    `- for disk in ${guestDevices.join(' ')}; do /root/disk-io -direct -seconds ${seconds} /dev/$disk; done >/root/results 2>&1`,
    '- echo end >>/root/results',
    `- dd if=/root/results of=/dev/${programDevice} bs=1M seek=${resultsAt / mebibyte}`,
    '- sync',
    '',
  ].join('\n')

/** Waits until the guest has written its results to a disk. */
async function resultsOf(path: string): Promise<Throughput[]> {
  const buffer = Buffer.alloc(64 * 1024)
  for (let tries = 0; tries < 600; tries++) {
    const file = openSync(path, 'r')
    readSync(file, buffer, 0, Math.min(buffer.length, statSync(path).size - resultsAt), resultsAt)
    closeSync(file)
    const lines = buffer.toString('latin1').split('\n')
    const end = lines.indexOf('end')
    if (end >= 0) return lines.slice(0, end).map((line): Throughput => JSON.parse(line))
    await sleep(1000)
  }
  throw new Error('the guest has not written its results within 10 minutes')
}

const divided = (one: Throughput, other: Throughput): Throughput =>
  Object.fromEntries(Object.entries(one).map(([operation, speed]) => [operation, speed / (other[operation] ?? NaN)]))
