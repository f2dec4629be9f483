import { afterAll, beforeAll, expect, test } from 'vitest'
import { run } from '../../cluster/command.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { ApiError } from '../../runtime/api-error.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { until } from '../until.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { installProcesses, type Processes, type Replica } from './processes.ts'

/** Two replicas of the webhooks complete objects, and both keep the configuration of the webhooks. */
let api: TestApiServer
let kube: KubeClient
let processes: Processes
let replicas: readonly Replica[]

beforeAll(async () => {
  api = await startApiServer()
  processes = await installProcesses(api, { environment: { LOG_LEVEL: 'debug' } })
  const overlay = 'manifests/overlays/object-presets'
  const files = ['-f', `${overlay}/rbac.yaml`, '-f', `${overlay}/configuration.yaml`]
  await run([api.kubectl, '--kubeconfig', api.kubeconfig, 'apply', ...files])
  replicas = await Promise.all(['one', 'two'].map((name) => processes.startWebhooks(name)))
  kube = createKubeClient({ access: await kubeconfigAccess({ file: api.kubeconfig }), userAgent: 'user' })
})
afterAll(async () => {
  await kube?.close()
  await processes?.stop()
  await api?.stop()
})

interface Answer {
  readonly metadata: { readonly generation?: number; readonly annotations?: { readonly [key: string]: string } }
  readonly webhooks?: readonly { readonly name: string }[]
  readonly status?: { readonly conditions?: readonly { readonly type: string; readonly status: string }[] }
}

const own = '/apis/virtset.io/v1alpha1'
const presets = `${own}/namespaces/default/objectpresets`
const post = async (path: string, body: object) => (await kube.request('POST', path, body)) as Answer
const get = async (path: string) => (await kube.request('GET', path)) as Answer
const configuration = () => get('/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/virtset-objects')
const eventually = (isTrue: () => Promise<boolean>) => until(isTrue, undefined, { deadlineMs: 120_000 })

const target = { apiVersion: 'v1', kind: 'ConfigMap' }
/** A replica refuses the first preset until it has read the target. */
async function createPreset(turn: string): Promise<void> {
  const object = { metadata: { annotations: { turn } } }
  const spec = { target, selector: { matchLabels: { turn } }, object }
  const preset = { apiVersion: 'virtset.io/v1alpha1', kind: 'ObjectPreset', metadata: { name: turn }, spec }
  await eventually(() =>
    post(presets, preset).then(
      () => true,
      (error: unknown) => error instanceof ApiError && error.status.code === 409,
    ),
  )
}

/** What several objects, which both replicas complete, got from the preset of this turn. */
const completed = (turn: string) =>
  Promise.all(
    Array.from({ length: 8 }, async (_, index) => {
      const object = { ...target, metadata: { name: `m-${index}`, labels: { turn } } }
      return (await post('/api/v1/namespaces/default/configmaps?dryRun=All', object)).metadata.annotations?.['turn']
    }),
  )
const isKnown = async (turn: string) => (await completed(turn)).every((one) => one === turn)
const isAccepted = async (turn: string) =>
  (await get(`${presets}/${turn}`)).status?.conditions?.some(
    ({ type, status }) => type === 'Accepted' && status === 'True',
  ) === true

/** The admission requests for the path that each replica has answered. */
const requestsFor = (path: string) => replicas.map((replica) => replica.log().split(`"path":"${path}"`).length - 1)

test('a preset that one replica has admitted is known to the other, and one of them writes the configuration', async () => {
  await post(`${own}/presettargets`, {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'PresetTarget',
    metadata: { name: 'configmaps' },
    spec: { ...target, failurePolicy: 'Fail' },
  })
  await createPreset('t0')
  await eventually(() => isKnown('t0'))
  const before = await configuration()
  expect(before.webhooks?.map(({ name }) => name)).toEqual(['configmaps.0.namespaced.virtset.io'])

  let turns = 1
  const haveBoth = (path: string) => requestsFor(path).every((count) => count > 0)
  await eventually(async () => {
    const turn = `t${turns++}`
    await createPreset(turn)
    await eventually(() => isKnown(turn))
    return turns > 5 && haveBoth('/validate') && haveBoth('/objects')
  })
  await eventually(() => isAccepted(`t${turns - 1}`))
  // Each preset made both replicas compare the configuration, which stays as it is.
  expect((await configuration()).metadata.generation).toBe(before.metadata.generation)
})
