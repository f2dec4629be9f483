import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { targetText, type Target } from '../../api/object-preset.ts'
import { groupOf } from '../../api/preset-target.ts'
import { isRecord } from '../../api/schema.ts'
import { parseManifest } from '../../api/yaml.ts'
import { kindsIn, resourceOf } from '../../presets/object-kind.ts'
import { readSchema } from '../../presets/schema.ts'
import { targetName } from '../../presets/target-check.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { startApiServer } from '../apiserver/apiserver.ts'
import { startObjectWebhooks } from '../apiserver/object-webhooks.ts'
import { chance } from '../chance.ts'
import { until } from '../until.ts'
import { contentOf, spoiled } from './contents.ts'
import { otherCrds } from './modules.ts'

/**
 * `npm run kinds`: every kind that a real API server serves, with the CRDs of cert-manager and Gateway API. Each is a
 * PresetTarget or refused as one with a cause. For each target, ten random presets are written, and ten that have a
 * misspelled field or a value of a wrong type, which must be refused. An object with the content of an accepted preset
 * must be accepted by the API server, or refused for a value: with strict validation, never for its form. Prints a line
 * for each kind. Needs KUBE_BIN_DIR, Go and, once, the modules.
 *
 *     node test/kinds/main.ts [--seed N]
 */
const { values } = parseArgs({ options: { seed: { type: 'string', default: '1' } } })
const presetsOfKind = 10

type Fields = { readonly [key: string]: unknown }

const api = await startApiServer()
const webhooks = await startObjectWebhooks(api)
const { kube } = webhooks

const ask = async (method: 'GET' | 'POST', path: string, body?: object): Promise<Fields> => {
  const answer = await kube.request(method, path, body).catch((error: unknown) => {
    if (error instanceof ApiError) return { ...error.status, kind: 'Status' }
    throw error
  })
  if (!isRecord(answer)) throw new Error(`${path}: no object`)
  return answer
}
const isStored = ({ kind }: Fields) => kind !== 'Status'
const causesOf = ({ details }: Fields): readonly unknown[] =>
  isRecord(details) && Array.isArray(details['causes']) ? details['causes'] : []

interface Found {
  readonly target: Target
  readonly resource: string
  readonly isNamespaced: boolean
  readonly schema: ReturnType<typeof readSchema>
}

/** Each kind of which objects can be created. */
async function servedKinds(): Promise<readonly Found[]> {
  const { paths } = await ask('GET', '/openapi/v3')
  const found: Found[] = []
  for (const entry of Object.values(isRecord(paths) ? paths : {})) {
    const url = isRecord(entry) ? entry['serverRelativeURL'] : undefined
    if (typeof url !== 'string' || !url.includes('/v')) continue
    const document = await ask('GET', url)
    const components = isRecord(document['components']) ? document['components']['schemas'] : undefined
    for (const [name, read] of kindsIn(document) ?? []) {
      const [kindName = '', apiVersion = ''] = name.split(' of ')
      const target = { apiVersion, kind: kindName }
      const resource = resourceOf(document, target)
      if (resource === undefined || !isRecord(components)) continue
      const raw = Object.values(components).find((one) => isRecord(one) && isOf(one, target))
      const kind = read()
      const isNamespaced = !('kind' in kind) || kind.kind.isNamespaced
      found.push({ target, resource, isNamespaced, schema: readSchema(raw, { components }) })
    }
  }
  return found
}

function isOf(component: Fields, { apiVersion, kind }: Target): boolean {
  const given = component['x-kubernetes-group-version-kind']
  const group = groupOf(apiVersion)
  return (
    Array.isArray(given) &&
    given.some(
      (one) =>
        isRecord(one) &&
        one['kind'] === kind &&
        (one['group'] ?? '') === group &&
        `${group === '' ? '' : `${group}/`}${String(one['version'])}` === apiVersion,
    )
  )
}

const own = '/apis/virtset.io/v1alpha1'
const collections = {
  PresetTarget: 'presettargets',
  ObjectPreset: 'namespaces/default/objectpresets',
  ClusterObjectPreset: 'clusterobjectpresets',
}
const write = (kind: keyof typeof collections, name: string, spec: object) =>
  ask('POST', `${own}/${collections[kind]}`, {
    apiVersion: 'virtset.io/v1alpha1',
    kind,
    metadata: { name },
    spec,
  })

const problems: string[] = []
const line = (text: string) => process.stdout.write(`${text}\n`)

try {
  for (const crd of otherCrds()) {
    const answer = await ask('POST', '/apis/apiextensions.k8s.io/v1/customresourcedefinitions', crd)
    if (!isStored(answer)) throw new Error(JSON.stringify(answer))
  }
  await ask('POST', '/api/v1/namespaces/default/serviceaccounts', { metadata: { name: 'default' } })
  await until(async () => (await servedKinds()).some(({ target }) => target.kind === 'TLSRoute'), undefined, {
    deadlineMs: 120_000,
  })
  const found = await servedKinds()
  const read = parseManifest(readFileSync(join(import.meta.dirname, 'objects.yaml'), 'utf8'))
  if (!('values' in read)) throw new Error(JSON.stringify(read))
  const bases = read.values.filter(isRecord)
  const tried: (Found & { readonly base: Fields; readonly accepted: readonly string[] })[] = []
  const random = chance(Number(values.seed))
  let refusedTargets = 0
  for (const one of found) {
    const { target, resource, isNamespaced, schema } = one
    const name = targetText(target)
    const asked = await write('PresetTarget', targetName(resource, target.apiVersion), {
      ...target,
      failurePolicy: 'Fail',
    })
    if (!isStored(asked)) {
      // Of a kind with several versions, one is a target.
      const isSecond = asked['reason'] === 'AlreadyExists'
      if (!isSecond && causesOf(asked).length === 0) problems.push(`${name}: refused without a cause`)
      refusedTargets += 1
      line(`${name}: no target: ${String(asked['message'])}`)
      continue
    }
    const base = bases.find((object) => object['apiVersion'] === target.apiVersion && object['kind'] === target.kind)
    if (base === undefined || 'causes' in schema) {
      line(`${name}: a target, but objects cannot be created alone`)
      if (!['Binding'].includes(target.kind)) problems.push(`${name}: has no object in objects.yaml`)
      continue
    }
    const presetKind = isNamespaced ? 'ObjectPreset' : 'ClusterObjectPreset'
    const accepted: string[] = []
    let refused = 0
    for (let index = 0; index < presetsOfKind; index++) {
      const object = contentOf(schema.schema, random)
      const selector = { matchLabels: { preset: `${index}` } }
      const id = `${resource}-${target.apiVersion.replace('/', '-')}-${index}`
      const answer = await write(presetKind, id, { target, selector, object })
      if (isStored(answer)) accepted.push(`${index}`)
      else if (causesOf(answer).length > 0) {
        refused += 1
        line(`${name}: refused first: ${JSON.stringify(causesOf(answer)[0])}`)
      } else problems.push(`${name}: ${JSON.stringify(object)}: refused without a cause: ${String(answer['message'])}`)
      const wrong = spoiled(object, random)
      const spoilt = await write(presetKind, `${id}-x`, { target, selector, object: wrong })
      if (causesOf(spoilt).length === 0) problems.push(`${name}: accepts ${JSON.stringify(wrong)}`)
    }
    tried.push({ ...one, base, accepted })
    if (refused > 0) line(`${name}: ${refused} presets refused with causes`)
  }
  let accepted = 0
  let refused = 0
  for (const { target, resource, isNamespaced, base, accepted: indexes } of tried) {
    const prefix = groupOf(target.apiVersion) === '' ? '/api' : '/apis'
    const collection = isNamespaced ? `namespaces/default/${resource}` : resource
    const path = `${prefix}/${target.apiVersion}/${collection}?dryRun=All&fieldValidation=Strict`
    const metadata = { name: 'a', ...(isRecord(base['metadata']) ? base['metadata'] : {}) }
    const create = (labels: object) => ask('POST', path, { ...base, metadata: { ...metadata, labels } })
    const plain = await create({})
    if (!isStored(plain)) problems.push(`${targetText(target)}: ${String(plain['message'])}`)
    let own = 0
    for (const [at, index] of indexes.entries()) {
      let answer = await create({ preset: index })
      if (at === 0) {
        // The API server reads the configuration of the webhooks a moment later.
        await until(
          async () => isCompleted((answer = await create({ preset: index }))) || !isStored(answer),
          undefined,
          {
            deadlineMs: 120_000,
            describe: () => targetText(target),
          },
        )
      }
      const message = String(answer['message'])
      if (isCompleted(answer)) own += 1
      else if (isStored(answer)) problems.push(`${targetText(target)}: preset ${index} was not applied`)
      else if (isAboutForm(answer)) problems.push(`${targetText(target)}: preset ${index}: ${message}`)
    }
    accepted += own
    refused += indexes.length - own
    line(
      `${targetText(target)}: ${own} objects accepted, ${indexes.length - own} refused by the API server for a value`,
    )
  }
  line(
    `${found.length} kinds: ${tried.length} tried, ${refusedTargets} no targets; ` +
      `${accepted} objects accepted, ${refused} refused for a value`,
  )
  for (const problem of problems) line(`PROBLEM ${problem}`)
  process.exitCode = problems.length > 0 ? 1 : 0
} finally {
  await webhooks.stop()
  await api.stop()
}

function isCompleted({ metadata }: Fields): boolean {
  const annotations = isRecord(metadata) ? metadata['annotations'] : undefined
  return isRecord(annotations) && annotations['generated'] === 'yes'
}

/** An unknown field or a value of a wrong type, which the preset should have been refused for. */
function isAboutForm(answer: Fields): boolean {
  const form = /unknown field|must be of type (object|array|string|integer|number|boolean|byte|date-time)/
  return !['Invalid', 'Forbidden'].includes(String(answer['reason'])) || form.test(String(answer['message']))
}
