import { parseArgs } from 'node:util'
import { systemClock } from '../runtime/clock.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { priorityOf } from '../presets/source.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { until } from '../test/until.ts'
import { startCaches } from '../webhooks/caches.ts'
import { createEngine } from '../webhooks/engine.ts'
import { parseReview } from '../webhooks/review.ts'
import { createReviewers } from '../webhooks/reviewers.ts'

/**
 * Whether the webhooks' heap grows with what they have seen: presets are written anew and deleted as fast as they can be, over the wire, with a review of
 * a new VM after every tenth, and the heap is measured after each twentieth of the changes, all garbage collected. Ends with 1 where it grows.
 *
 *     npm run -s bench:heap [-- --changes 100000] [--json]
 */
const { values } = parseArgs({ options: { changes: { type: 'string', default: '100000' }, json: { type: 'boolean' } } })
const changes = Number(values.changes)
const parts = 20
/** After so many parts what is remembered of reviews has reached its bound. */
const settledAfter = 10
/** So many presets there are at most. */
const names = 1000
const collection = '/apis/virtset.io/v1alpha1/virtualmachinepresets'
/** An hour has some 3,600 such changes in a busy cluster: this would be a megabyte in a month. */
const maxBytesPerChange = 16

const collect = globalThis.gc
if (collect === undefined) throw new Error('wants node --expose-gc')

const api = await startFakeApiServer()
const kube = createKubeClient({ access: api.access, userAgent: 'bench' })
const log = createLogger({ process: 'bench', level: 'silent' })
const caches = startCaches(kube, log, systemClock)
await until(() => caches.unready().length === 0)
const reviewers = createReviewers(
  createEngine(caches, () => Promise.resolve(false)),
  { controllers: [] },
)

function change(number: number): void {
  const name = `preset-${(number * 7919) % names}`
  if (number % 5 === 4) return api.remove(collection, 'default', name)
  // Every eleventh is broken.
  const domain = number % 11 === 0 ? { vcpus: number } : { description: `${number}`, vcpu: { value: (number % 8) + 1 } }
  const selector = { matchLabels: { app: `app-${number % names}` } }
  const metadata = { name, namespace: 'default' }
  api.put(collection, { kind: 'VirtualMachinePreset', metadata, spec: { selector, domain } })
}

async function review(number: number): Promise<void> {
  const metadata = { name: `vm-${number}`, namespace: 'default', labels: { app: `app-${number % names}` } }
  const object = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata,
    spec: { domain: { type: 'qemu', memory: { value: 65_536 + number }, os: { type: { os: 'hvm' } } } },
  }
  const request = {
    uid: `${number}`,
    kind: { kind: 'VirtualMachine' },
    operation: 'CREATE',
    namespace: 'default',
    object,
  }
  const parsed = parseReview({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
  if (!('review' in parsed)) throw new Error(parsed.problem)
  for (const judge of [reviewers.mutate, reviewers.validate]) await judge(parsed.review)
}

async function heapAfter(collect: NodeJS.GCFunction): Promise<number> {
  api.compact()
  api.requests.length = 0
  for (let round = 0; round < 3; round++) {
    await collect({ type: 'major', execution: 'async' })
  }
  return process.memoryUsage().heapUsed
}

const heaps: number[] = []
for (let number = 0; number < changes; number++) {
  change(number)
  if (number % 10 === 0) await review(number)
  // The last write shows that all before it have arrived.
  if (number % names === names - 1) {
    api.put(collection, {
      metadata: { name: 'last', namespace: 'default' },
      spec: { selector: {}, mode: 'Audit', priority: number },
    })
    await until(() => priorityOf(caches.candidates.get('default/last')?.rank ?? 0) === number, undefined, {
      deadlineMs: 60_000,
    })
  }
  if (number % (changes / parts) === changes / parts - 1) heaps.push(await heapAfter(collect))
}

/** The heap's growth by least squares, once the memories of fixed size are full. */
function slope(all: readonly number[]): number {
  const heaps = all.slice(settledAfter)
  const middle = (heaps.length - 1) / 2
  const mean = heaps.reduce((sum, heap) => sum + heap, 0) / heaps.length
  const rise = heaps.reduce((sum, heap, index) => sum + (index - middle) * (heap - mean), 0)
  const run = heaps.reduce((sum, _, index) => sum + (index - middle) ** 2, 0)
  return rise / run / (changes / parts)
}

const bytesPerChange = slope(heaps)
const megabytes = heaps.map((heap) => Math.round(heap / 104_857.6) / 10)
if (values.json) console.log(JSON.stringify({ changes, bytesPerChange, heapMiB: megabytes }))
else console.log(`${changes} changes: heap ${megabytes.join(', ')} MiB; ${bytesPerChange.toFixed(1)} bytes a change`)
process.exit(bytesPerChange > maxBytesPerChange ? 1 : 0)
