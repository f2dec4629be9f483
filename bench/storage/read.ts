import { join } from 'node:path'
import { run } from '../../cluster/command.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { imageDiskOf, qemuOf } from './node.ts'
import { claimVolume, imageVolume, type Vms } from './vms.ts'

/** A time with nothing of the disk in the page cache of the node, and the same again. */
interface ColdAndWarm {
  readonly cold: number
  readonly warm: number
}

/** In milliseconds. */
export interface ReadRound {
  /** From its creation until the agent of its guest responds, for a VM of an image and for one with a copy of its disk. */
  readonly imageBootMs: ColdAndWarm
  readonly copyBootMs: ColdAndWarm
  /** QEMU's block layer reads all data of the disk, in the pod. */
  readonly imageReadMs: ColdAndWarm
  readonly copyReadMs: ColdAndWarm
  /** The baseline: the node reads the same data in the file of the copy, without QEMU. */
  readonly nodeReadMs: ColdAndWarm
}

/**
 * Reads the disk of an image and a copy of it, each first from the node's disk and then from its page cache, and boots
 * from both in the same way. A disk that is a file of another host can still be in the cache of that host.
 */
export async function measureReads(
  vms: Vms,
  reference: string,
  rounds: number,
  show: (text: string) => void,
): Promise<readonly ReadRound[]> {
  const copy = join(await vms.claimDirectory('read-copy'), 'disk.img')
  const image = imageVolume(reference)
  // The first start fills the claim, and the node has the image.
  await vms.start('read-copy', [claimVolume('read-copy', reference)])
  await vms.remove('read-copy')
  const { vm } = await vms.start('read-image', [image])
  const base = await imageDiskOf(vm)
  await vms.remove('read-image')

  const result: ReadRound[] = []
  for (let round = 1; round <= rounds; round++) {
    show(`round ${round}`)
    const onImage = await bootAndRead(vms, 'read-image', { volume: image, file: base, format: 'qcow2' })
    const onCopy = await bootAndRead(vms, 'read-copy', { volume: claimVolume('read-copy'), file: copy, format: 'raw' })
    // Without the holes, as QEMU.
    const onNode = () => run(['cp', '--sparse=always', '--reflink=never', copy, '/dev/null'])
    result.push({
      imageBootMs: onImage.bootMs,
      copyBootMs: onCopy.bootMs,
      imageReadMs: onImage.readMs,
      copyReadMs: onCopy.readMs,
      nodeReadMs: await coldAndWarm(copy, onNode),
    })
  }
  return result
}

interface ReadDisk {
  readonly volume: ReturnType<typeof imageVolume>
  /** On the node, with the data. */
  readonly file: string
  readonly format: 'qcow2' | 'raw'
}

async function bootAndRead(
  vms: Vms,
  name: string,
  { volume, file, format }: ReadDisk,
): Promise<{ readonly bootMs: ColdAndWarm; readonly readMs: ColdAndWarm }> {
  await forget(file)
  const cold = await vms.start(name, [volume])
  await vms.remove(name)
  const warm = await vms.start(name, [volume])
  const path = `/var/run/virtset/volumes/${volume.name}/disk.${format === 'raw' ? 'img' : format}`
  const readMs = await coldAndWarm(file, () => readWithQemu(warm.vm, path, format))
  await vms.remove(name)
  return { bootMs: { cold: cold.bootedMs, warm: warm.bootedMs }, readMs }
}

async function coldAndWarm(file: string, read: () => Promise<unknown>): Promise<ColdAndWarm> {
  await forget(file)
  const cold = await timed(read)
  return { cold, warm: await timed(read) }
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begin = performance.now()
  await work()
  return performance.now() - begin
}

/** Removes a file from the page cache of the node: of this file alone, because others use the node, too. */
async function forget(file: string): Promise<void> {
  await run(['sync', file])
  await run(['dd', `if=${file}`, 'iflag=nocache', 'count=0', 'status=none'])
  const left = Number(await run(['fincore', '--bytes', '--noheadings', '--output', 'RES', file]))
  // A QEMU that has it open reads single pages meanwhile.
  if (left > 1024 * 1024) throw new Error(`${left} bytes of ${file} are still in the page cache`)
}

/** Reads all of a disk in the pod of a VM, with everything that it is based on, and drops what it reads. */
async function readWithQemu(vm: Persisted<VirtualMachine>, path: string, format: string): Promise<void> {
  const pod = ['nsenter', `--target=${qemuOf(vm)}`, '--mount', '--root', '--wd=/']
  const size = JSON.parse(await run([...pod, 'qemu-img', 'info', '-U', '-f', format, '--output=json', path]))
  const target = `driver=null-co,size=${Number(size['virtual-size'])}`
  await run([...pod, 'qemu-img', 'convert', '-U', '-n', '-f', format, path, '--target-image-opts', target])
}
