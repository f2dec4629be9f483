import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../../api/schema.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { startApiServer } from '../apiserver/apiserver.ts'
import { startObjectWebhooks } from '../apiserver/object-webhooks.ts'
import { until } from '../until.ts'
import { kubevirtCrds, kubevirtExamples, kubevirtModule, pluralOf, type KubevirtKind } from './module.ts'

/**
 * `npm run kubevirt`: the CRDs and examples of KubeVirt on a real API server. Presets set the fields that KubeVirt's
 * own VirtualMachineInstancePreset knew; each example must be completed and keep all that its author wrote. Needs
 * KUBE_BIN_DIR and Go.
 */

/** What a VirtualMachineInstancePreset could set, with a value of each. */
const domain = {
  cpu: { cores: 2, threads: 1 },
  memory: { guest: '128Mi' },
  resources: { requests: { memory: '256Mi' } },
  firmware: { serial: 'serial' },
  clock: { timer: { hpet: { present: false }, pit: { tickPolicy: 'delay' } } },
  features: { acpi: { enabled: true }, apic: {} },
  devices: { watchdog: { name: 'watchdog', i6300esb: { action: 'poweroff' } } },
  ioThreadsPolicy: 'auto',
}

const label = { 'example.org/preset': 'all' }
const wrapped = (spec: object) => ({ spec: { template: { spec } } })
const contents: { readonly [K in KubevirtKind]?: object } = {
  VirtualMachineInstance: { spec: { domain } },
  VirtualMachine: wrapped({ domain }),
  VirtualMachineInstanceReplicaSet: wrapped({ domain }),
}
const wanted = Object.keys(contents) as KubevirtKind[]

const directory = kubevirtModule()
const api = await startApiServer()
const webhooks = await startObjectWebhooks(api)
const { kube } = webhooks

const create = (path: string, body: object): Promise<unknown> =>
  kube.request('POST', path, body).catch((error: unknown) => {
    if (error instanceof ApiError) return { ...error.status, kind: 'Status' }
    throw error
  })
const isStored = (answer: unknown) => isRecord(answer) && answer['kind'] !== 'Status'

try {
  for (const crd of kubevirtCrds(directory)) {
    const answer = await create('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd)
    if (!isStored(answer)) throw new Error(JSON.stringify(answer))
  }
  const own = '/apis/virtset.io/v1alpha1'
  const virtset = (kind: string, name: string, spec: object) => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind,
    metadata: { name },
    spec,
  })
  for (const kind of wanted) {
    const target = { apiVersion: 'kubevirt.io/v1', kind }
    const name = `${pluralOf(kind)}.kubevirt.io`
    const spec = { ...target, failurePolicy: 'Fail' }
    // The API server serves the kind a moment after its definition.
    await until(
      async () => isStored(await create(`${own}/presettargets`, virtset('PresetTarget', name, spec))),
      undefined,
      {
        deadlineMs: 120_000,
      },
    )
    const preset = virtset('ObjectPreset', kind.toLowerCase(), {
      target,
      selector: { matchLabels: label },
      object: contents[kind],
    })
    const answer = await create(`${own}/namespaces/default/objectpresets`, preset)
    if (!isStored(answer)) throw new Error(`the preset for ${kind} was refused: ${JSON.stringify(answer)}`)
  }
  process.exitCode = (await tryExamples()) ? 0 : 1
} finally {
  await webhooks.stop()
  await api.stop()
}

async function tryExamples(): Promise<boolean> {
  const counts = new Map<string, number>()
  let isFine = true
  for (const { file, kind, object } of kubevirtExamples(directory, wanted)) {
    const path = `/apis/kubevirt.io/v1/namespaces/default/${pluralOf(kind)}?dryRun=All&fieldValidation=Strict`
    const metadata = isRecord(object['metadata']) ? object['metadata'] : {}
    const labels = isRecord(metadata['labels']) ? metadata['labels'] : {}
    const without = await create(path, object)
    const labelled = { ...object, metadata: { ...metadata, labels: { ...labels, ...label } } }
    let stored = await create(path, labelled)
    if (counts.get(kind) === undefined && isStored(without)) {
      // The first object: the API server reads the configuration of the webhooks later.
      const isDone = async () => isCompleted((stored = await create(path, labelled)))
      const describe = () => `${file}: ${messageOf(stored)}`
      await until(isDone, undefined, { deadlineMs: 60_000, describe })
    }
    const problem = !isStored(without)
      ? `is not an object of this version: ${messageOf(without)}`
      : !isStored(stored)
        ? `was refused: ${messageOf(stored)}`
        : !isCompleted(stored)
          ? 'was not completed'
          : !isPart(object['spec'], isRecord(stored) ? stored['spec'] : undefined)
            ? 'lost something that its author wrote'
            : !isPart(filled(contents[kind], object), stored)
              ? 'lacks a field of the preset'
              : undefined
    if (isStored(without)) counts.set(kind, (counts.get(kind) ?? 0) + 1)
    if (problem === undefined) continue
    isFine = false
    process.stdout.write(`${file}: ${kind} ${problem}\n`)
  }
  for (const [kind, count] of counts) process.stdout.write(`${kind}: examples of KubeVirt tried: ${count}\n`)
  return isFine && counts.size === wanted.length
}

function messageOf(answer: unknown): string {
  const message = isRecord(answer) ? answer['message'] : undefined
  return typeof message === 'string' ? message : (JSON.stringify(answer)?.slice(0, 800) ?? 'nothing')
}

function isCompleted(answer: unknown): boolean {
  const metadata = isRecord(answer) && isRecord(answer['metadata']) ? answer['metadata'] : {}
  return isRecord(metadata['annotations']) && metadata['annotations']['virtset.io/completed-by'] !== undefined
}

/** The fields of the preset that the author left open. */
function filled(content: unknown, written: unknown): unknown {
  if (!isRecord(content) || Object.keys(content).length === 0) return written === undefined ? content : written
  const fields = isRecord(written) ? written : {}
  return Object.fromEntries(Object.entries(content).map(([key, member]) => [key, filled(member, fields[key])]))
}

/** Every leaf of `part` is in `whole` at the same place. */
function isPart(part: unknown, whole: unknown): boolean {
  if (Array.isArray(part) && Array.isArray(whole)) {
    return part.length === whole.length && part.every((item, index) => isPart(item, whole[index]))
  }
  if (!isRecord(part) || !isRecord(whole)) return isDeepStrictEqual(part, whole)
  return Object.keys(part).every((key) => Object.hasOwn(whole, key) && isPart(part[key], whole[key]))
}
