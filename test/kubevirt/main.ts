import { isDeepStrictEqual } from 'node:util'
import { isRecord } from '../../api/schema.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { startApiServer } from '../apiserver/apiserver.ts'
import { startObjectWebhooks } from '../apiserver/object-webhooks.ts'
import { until } from '../until.ts'
import { casePresets, cases } from './cases.ts'
import { kubevirtCrds, kubevirtExamples, kubevirtModule, pluralOf, type KubevirtKind } from './module.ts'

/**
 * `npm run kubevirt`: the CRDs and examples of KubeVirt on a real API server. Presets set the fields that KubeVirt's
 * own VirtualMachineInstancePreset knew; each example must be completed and keep all that its author wrote. Then the
 * cases of the unit tests of these presets. Needs KUBE_BIN_DIR and Go.
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
  const areFine = [await tryExamples(), await tryCases(own)]
  process.exitCode = areFine.includes(false) ? 1 : 0
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

async function tryCases(own: string): Promise<boolean> {
  const target = { apiVersion: 'kubevirt.io/v1', kind: 'VirtualMachineInstance' }
  const createPreset = (name: string, selector: object, content: object) =>
    create(`${own}/namespaces/default/objectpresets`, {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'ObjectPreset',
      metadata: { name },
      spec: { target, selector, object: { spec: { domain: content } } },
    })
  for (const [name, content] of Object.entries(casePresets)) {
    const answer = await createPreset(name, { matchLabels: { [`example.org/${name}`]: 'yes' } }, content)
    if (!isStored(answer)) throw new Error(`the preset ${name} was refused: ${messageOf(answer)}`)
  }
  const problems: string[] = []
  if (isStored(await createPreset('bogus', { matchLabels: { 'example.org/flavor': '!' } }, {})))
    problems.push('a selector with an invalid value is accepted')
  const path = '/apis/kubevirt.io/v1/namespaces/default/virtualmachineinstances?dryRun=All&fieldValidation=Strict'
  for (const { name, presets, annotations = {}, domain: written = {}, expected, refused } of cases) {
    const labels = Object.fromEntries(presets.map((preset) => [`example.org/${preset}`, 'yes']))
    const object = {
      ...target,
      metadata: { name: 'a', labels, annotations },
      spec: { domain: { devices: {}, ...written } },
    }
    const wantedResult = refused ?? { devices: {}, ...expected }
    let result: unknown
    const isAsWanted = async () => isDeepStrictEqual((result = resultOf(await create(path, object))), wantedResult)
    // The API server learns a moment later which objects to send.
    await until(isAsWanted, undefined, { deadlineMs: 30_000 }).catch(() =>
      problems.push(`${name}: ${JSON.stringify(result)} in place of ${JSON.stringify(wantedResult)}`),
    )
  }
  for (const problem of problems) process.stdout.write(`PROBLEM ${problem}\n`)
  process.stdout.write(`cases of KubeVirt's own presets tried: ${cases.length + 1}\n`)
  return problems.length === 0
}

/** The stored domain, or the fields for which the object was refused. */
function resultOf(answer: unknown): unknown {
  if (!isRecord(answer)) return answer
  const { spec, details } = answer
  if (isRecord(spec)) return spec['domain']
  const causes = isRecord(details) && Array.isArray(details['causes']) ? details['causes'] : [answer]
  return causes.map((cause: unknown) => (isRecord(cause) ? (cause['field'] ?? cause['message']) : cause))
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
