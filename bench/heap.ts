import { parseArgs } from 'node:util'
import { systemClock } from '../runtime/clock.ts'
import { createKubeClient } from '../runtime/kube.ts'
import { createLogger } from '../runtime/log.ts'
import { priorityOf } from '../presets/source.ts'
import { startFakeApiServer } from '../test/fake-apiserver.ts'
import { until } from '../test/until.ts'
import { startCaches } from '../webhooks/admission/caches.ts'
import { createEngine } from '../webhooks/admission/engine.ts'
import { parseAdmissionReview } from '../webhooks/admission/request.ts'
import { createHandlers } from '../webhooks/admission/handler.ts'

/**
 * Tests whether the webhooks' heap grows over time: writes and deletes presets as fast as possible over HTTP, with an
 * admission request for a new VM after every tenth change, and measures the heap after each twentieth of the changes,
 * after garbage collection. Exits with 1 if it grows.
 *
 *     npm run -s bench:heap [-- --changes 100000] [--json]
 */
const { values } = parseArgs({ options: { changes: { type: 'string', default: '100000' }, json: { type: 'boolean' } } })
const changes = Number(values.changes)
const parts = 20
/** After this many parts, the caches of admission have reached their limit. */
const settledAfter = 10
/** The maximum number of presets. */
const names = 1000
const collection = '/apis/virtset.io/v1alpha1/virtualmachinepresets'
/** A busy cluster has some 3,600 changes per hour, so this would be 40 MB in a month. */
const maxBytesPerChange = 16

const collect = globalThis.gc
if (collect === undefined) throw new Error('requires node --expose-gc')

const api = await startFakeApiServer()
const kube = createKubeClient({ access: api.access, userAgent: 'bench' })
const log = createLogger({ process: 'bench', level: 'silent' })
const caches = startCaches(kube, log, systemClock)
await until(() => caches.unready().length === 0)
const handlers = createHandlers(
  createEngine(caches, () => Promise.resolve(false)),
  { controllers: [] },
)

function change(number: number): void {
  const name = `preset-${(number * 7919) % names}`
  if (number % 5 === 4) return api.remove(collection, 'default', name)
  // Every eleventh preset is broken.
  const domain = number % 11 === 0 ? { vcpus: number } : { description: `${number}`, vcpu: { value: (number % 8) + 1 } }
  const selector = { matchLabels: { app: `app-${number % names}` } }
  const metadata = { name, namespace: 'default' }
  api.put(collection, { kind: 'VirtualMachinePreset', metadata, spec: { selector, domain } })
}

async function sendVm(number: number): Promise<void> {
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
  const parsed = parseAdmissionReview({ apiVersion: 'admission.k8s.io/v1', kind: 'AdmissionReview', request })
  if (!('request' in parsed)) throw new Error(parsed.problem)
  for (const handle of [handlers.mutate, handlers.validate]) await handle(parsed.request)
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
  if (number % 10 === 0) await sendVm(number)
  // Once the last write has arrived, all previous ones have too.
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

/** The heap's growth in bytes per change by least squares, once the caches are full. */
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
