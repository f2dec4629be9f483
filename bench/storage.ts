import { randomBytes } from 'node:crypto'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { createProgress } from '../cluster/progress.ts'
import { readSettings } from '../cluster/settings.ts'
import { terminal } from '../cluster/terminal.ts'
import { kubeconfigAccess } from '../runtime/access.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { virtualMachines } from '../runtime/resource.ts'
import { measureIo } from './storage/io.ts'
import { allocatedMiB, cachedImageMiB, useOf, type Use } from './storage/node.ts'
import { measureReads, type ReadRound } from './storage/read.ts'
import { claimVolume, imageVolume, openVms, type Started, type Vms } from './storage/vms.ts'

/**
 * On the cluster of `make up`, with its Linux guest in TCG:
 *
 * - a VM whose disk is in a container image, beside one that boots from a full copy of it in a claim, at its first start
 *   (which makes the copy) and at the next one: start-up, and disk space of the node;
 * - both of them with nothing of their disk in the page cache of the node, beside the same again: start-up, and reading
 *   the whole disk, with the node's own reading as the baseline;
 * - VMs of one image, one after the other, all running at the end: what each takes of the node's disk and memory, and
 *   the start-up of the last beside the first;
 * - throughput in the guest beside the same on the node, for each kind of disk.
 *
 * Prints a line of JSON for each, with medians where there are several rounds.
 *
 *     node bench/storage.ts [--vms 20] [--rounds 3] [--seconds 3]
 */
const { values } = parseArgs({
  options: {
    vms: { type: 'string', default: '20' },
    rounds: { type: 'string', default: '3' },
    seconds: { type: 'string', default: '3' },
  },
})
/** Goal: the disk space of the node that a VM of an image takes. */
const goalMiB = 5

const settings = readSettings(resolve(import.meta.dirname, '..'), process.env)
const progress = createProgress(terminal, join(settings.cache, 'log'))
const access = await kubeconfigAccess({ file: join(settings.state, 'kubeconfig') })
const kube = createKubeClient({ access, userAgent: 'virtset-bench' })

/** The image of the example VM. */
async function linuxImage(): Promise<string> {
  const example = await kube.get(virtualMachines, { namespace: 'default', name: 'from-image' })
  const reference = example.spec.volumes?.find(({ image }) => image !== undefined)?.image?.reference
  if (reference === undefined) throw new Error('the example VM from-image has no image: run `make up`')
  return reference
}

const median = (list: readonly number[]): number => {
  const sorted = list.toSorted((left, right) => left - right)
  const middle = Math.floor(sorted.length / 2)
  return sorted.length % 2 === 1 ? (sorted[middle] ?? NaN) : ((sorted[middle - 1] ?? NaN) + (sorted[middle] ?? NaN)) / 2
}
const startOf = (list: readonly Started[]) => ({
  runningMs: median(list.map(({ runningMs }) => runningMs)),
  bootedMs: median(list.map(({ bootedMs }) => bootedMs)),
})

/** The start and the disk space of a VM that is removed again. */
async function once(vms: Vms, name: string, volume: ReturnType<typeof imageVolume>): Promise<Started & Use> {
  const started = await vms.start(name, [volume])
  const use = await useOf(settings.state, started.vm)
  await vms.remove(name)
  return { ...started, ...use }
}

async function compareWithCopy(vms: Vms, reference: string, show: (text: string) => void) {
  const image: (Started & Use)[] = []
  const firstOfClaim: (Started & Use)[] = []
  const nextOfClaim: (Started & Use)[] = []
  const copies: number[] = []
  for (let round = 1; round <= Number(values.rounds); round++) {
    show(`round ${round}`)
    image.push(await once(vms, `image-${round}`, imageVolume(reference)))
    const claim = `copy-${round}`
    const directory = await vms.claimDirectory(claim)
    firstOfClaim.push(await once(vms, claim, claimVolume(claim, reference)))
    nextOfClaim.push(await once(vms, claim, claimVolume(claim)))
    copies.push(await allocatedMiB(directory))
  }
  const summary = (list: readonly (Started & Use)[]) => ({
    ...startOf(list),
    diskMiB: median(list.map(({ diskMiB }) => diskMiB)),
  })
  return {
    image: summary(image),
    claimFirstStart: summary(firstOfClaim),
    claimNextStart: summary(nextOfClaim),
    /** Beside `diskMiB` of a VM. */
    claimMiB: median(copies),
  }
}

/** Medians, and by what those of the image are larger than those of the copy and of the baseline. */
async function compareReads(vms: Vms, reference: string, show: (text: string) => void) {
  const rounds = await measureReads(vms, reference, Number(values.rounds), show)
  const column = (of: keyof ReadRound) => ({
    cold: median(rounds.map((round) => round[of].cold)),
    warm: median(rounds.map((round) => round[of].warm)),
  })
  const [imageBootMs, copyBootMs] = [column('imageBootMs'), column('copyBootMs')]
  const [imageReadMs, copyReadMs, nodeReadMs] = [column('imageReadMs'), column('copyReadMs'), column('nodeReadMs')]
  const divided = (one: typeof imageReadMs, other: typeof imageReadMs) => ({
    cold: one.cold / other.cold,
    warm: one.warm / other.warm,
  })
  return {
    imageBootMs,
    copyBootMs,
    imageToCopyBoot: divided(imageBootMs, copyBootMs),
    imageReadMs,
    copyReadMs,
    nodeReadMs,
    imageToCopyRead: divided(imageReadMs, copyReadMs),
    copyToNodeRead: divided(copyReadMs, nodeReadMs),
  }
}

async function manyOfOneImage(vms: Vms, reference: string, show: (text: string) => void) {
  const started: Started[] = []
  for (let index = 1; index <= Number(values.vms); index++) {
    show(`VM ${index} of ${values.vms}`)
    const one = await vms.start(`one-of-many-${index}`, [imageVolume(reference)])
    started.push(one)
    await vms.releaseCpu(one.vm)
  }
  const use: Use[] = []
  for (const { vm } of started) use.push(await useOf(settings.state, vm))
  const column = (of: keyof Use) => {
    const list = use.map((each) => each[of])
    return { median: median(list), least: Math.min(...list), most: Math.max(...list) }
  }
  const [first, last] = [started.slice(0, 1), started.slice(-1)]
  const third = started.slice(0, Math.max(1, Math.floor(started.length / 3)))
  const result = {
    vms: started.length,
    first: startOf(first),
    last: startOf(last),
    medianOfFirstThird: startOf(third),
    medianOfLastThird: startOf(started.slice(-third.length)),
    diskMiB: column('diskMiB'),
    goalMiB,
    qemuMiB: column('qemuMiB'),
    othersMiB: column('othersMiB'),
    cacheMiB: column('cacheMiB'),
    imageInPageCacheMiB: first[0] === undefined ? NaN : await cachedImageMiB(first[0].vm),
  }
  await Promise.all(started.map(({ vm }) => vms.remove(vm.metadata.name)))
  return result
}

const rounded = (_: string, value: unknown): unknown =>
  typeof value === 'number' ? Number(value.toPrecision(4)) : value

const remedy = 'requires the cluster of `make up`, and Go >= 1.26'
const vms = await openVms(kube, `bench-storage-${randomBytes(3).toString('hex')}`, settings.state)
try {
  const reference = await linuxImage()
  const measure = async (what: string, title: string, work: (show: (text: string) => void) => Promise<unknown>) => {
    const result = await progress.step(title, remedy, (step) => work((text) => step.show(text)))
    console.log(JSON.stringify({ [what]: result }, rounded))
  }
  await measure('throughput', 'Throughput', () => measureIo(vms, reference, Number(values.seconds)))
  await measure('comparison', 'An image beside a copy', (show) => compareWithCopy(vms, reference, show))
  await measure('reads', 'Reading with a cold page cache', (show) => compareReads(vms, reference, show))
  await measure('many', 'VMs of one image', (show) => manyOfOneImage(vms, reference, show))
} finally {
  await vms.close()
  await kube.close()
}
