import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CommandFailed, run } from '../../cluster/command.ts'
import { renderChart, switches, type KubernetesObject } from '../../release/chart.ts'
import { objectsOf } from '../../release/release.ts'
import { memoized } from '../memoized.ts'
import { publishedTag } from '../published-tag.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'

/**
 * Compares the objects that Helm renders from the release's chart with those that kustomize renders from `manifests/`.
 */
let api: TestApiServer
let chart: string
beforeAll(async () => {
  api = await startApiServer()
  chart = join(mkdtempSync(join(tmpdir(), 'virtset-chart-')), 'virtset')
  const overlays: Record<string, KubernetesObject[]> = {}
  for (const [value, name] of Object.entries(switches)) overlays[value] = await kustomized(`manifests/overlays/${name}`)
  for (const [name, text] of Object.entries(renderChart({ base: await kustomized('manifests'), overlays }, '0.0.1'))) {
    mkdirSync(dirname(join(chart, name)), { recursive: true })
    writeFileSync(join(chart, name), text)
  }
})
afterAll(async () => {
  rmSync(dirname(chart), { recursive: true, force: true })
  await api?.stop()
})

/** Once for each folder: the CRDs take seconds. */
const kustomized = memoized(async (folder) => objectsOf(await run([api.kubectl, 'kustomize', folder])))

const program = process.env['HELM']
if (program === undefined) throw new Error('HELM is not set: run `make test`')
const helm = (...rest: string[]) =>
  run([program, ...rest], { environment: { KUBECONFIG: api.kubeconfig, HELM_CACHE_HOME: api.directory } })
const refusalOf = (...rest: string[]) =>
  helm(...rest).then(
    () => '',
    (error: unknown) => (error instanceof CommandFailed ? error.output : String(error)),
  )

const rendered = async (...settings: string[]) =>
  objectsOf(await helm('template', 'virtset', chart, ...settings.flatMap((each) => ['--set-json', each])))

const sorted = (objects: readonly KubernetesObject[]) =>
  objects
    .map((object): [string, KubernetesObject] => [
      [object.kind, object.metadata.namespace, object.metadata.name].join(' '),
      object,
    ])
    .toSorted(([one], [other]) => (one < other ? -1 : 1))

/** Helm keeps CRDs only with this annotation, which those of kustomize do not have. */
const withPolicy = (object: KubernetesObject): KubernetesObject => {
  if (object.kind !== 'CustomResourceDefinition') return object
  const annotations = { ...object.metadata.annotations, 'helm.sh/resource-policy': 'keep' }
  return { ...object, metadata: { ...object.metadata, annotations } }
}

test.each([
  ['manifests', []],
  ...Object.entries(switches).map(([value, name]): [string, string[]] => [
    `manifests/overlays/${name}`,
    [`${value}=true`],
  ]),
])('the chart renders %s with %j', async (folder, settings) => {
  const expected = (await kustomized(folder)).map(withPolicy)
  expect(sorted(await rendered(...settings))).toEqual(sorted(expected))
})

test('helm lint reports nothing', async () => {
  expect(await helm('lint', '--strict', chart)).toContain('0 chart(s) failed')
})

const webhooks = 'Deployment virtset-webhooks'
const handler = 'DaemonSet virtset-handler'
const pod = 'spec.template.spec'
const digest = `sha256:${'0'.repeat(64)}`

describe('values', () => {
  test.each<[string[], string, string, unknown]>([
    [['webhooks.replicas=3'], webhooks, 'spec.replicas', 3],
    [['controller.replicas=3'], 'Deployment virtset-controller', 'spec.replicas', 3],
    [['webhooks.nodeSelector={"a":"b"}'], webhooks, `${pod}.nodeSelector`, { a: 'b' }],
    [['webhooks.tolerations=[{"operator":"Exists"}]'], webhooks, `${pod}.tolerations`, [{ operator: 'Exists' }]],
    [['webhooks.priorityClassName="mine"', 'certManager.enabled=true'], webhooks, `${pod}.priorityClassName`, 'mine'],
    [['imagePullSecrets=[{"name":"s"}]'], handler, `${pod}.imagePullSecrets`, [{ name: 's' }]],
    [['webhooks.resources.limits.memory="1Gi"'], webhooks, `${pod}.containers[0].resources.limits.memory`, '1Gi'],
    [['images.prefix="r.example/v"'], webhooks, `${pod}.containers[0].image`, `r.example/v/virtset:${publishedTag}`],
    [
      ['images.prefix="r.example/v"', `images.launcher="launcher@${digest}"`],
      'ValidatingAdmissionPolicy virtset-controller-pods',
      'spec.variables[0].expression',
      `"r.example/v/launcher@${digest}"`,
    ],
    [
      [`images.launcher="launcher@${digest}"`],
      'Deployment virtset-controller',
      `${pod}.containers[0].env[2].value`,
      `ghcr.io/virtset/launcher@${digest}`,
    ],
    [
      ['controller.shareCapabilities=true'],
      'Deployment virtset-controller',
      `${pod}.containers[0].env[3].value`,
      'true',
    ],
    [['handler.kubeletRoot="/k"'], handler, `${pod}.volumes[1].hostPath.path`, '/k/pods'],
    [['handler.deviceCount=8'], handler, `${pod}.containers[0].env[4].value`, '8'],
    [['handler.tolerations=[]'], 'DaemonSet virtset-profile', `${pod}.tolerations`, []],
    [
      ['certManager.enabled=true', 'certManager.issuerRef={"name":"ca","kind":"ClusterIssuer"}'],
      'Certificate virtset-webhooks',
      'spec.issuerRef',
      { name: 'ca', kind: 'ClusterIssuer' },
    ],
    [
      ['monitoring.enabled=true', 'monitoring.prometheusNamespace="p"'],
      'NetworkPolicy virtset-metrics',
      'spec.ingress[0].from[0].namespaceSelector.matchLabels',
      { 'kubernetes.io/metadata.name': 'p' },
    ],
    [
      ['objectPresets.enabled=true'],
      'ClusterRole virtset-webhooks-objects',
      'rules[0].resourceNames',
      ['virtset-objects'],
    ],
    [
      ['networkPlugins.enabled=true', 'imagePullSecrets=[{"name":"registry"}]'],
      'DaemonSet virtset-network',
      'spec.template.spec.imagePullSecrets',
      [{ name: 'registry' }],
    ],
  ])('%j sets %s %s', async (settings, identity, path, expected) => {
    // Without the CRDs, which take most of the time.
    const objects = await rendered('crds.install=false', ...settings)
    const object = objects.find(({ kind, metadata }) => `${kind} ${metadata.name}` === identity)
    expect(object).toHaveProperty(path, expected)
  })

  test.each([
    ['crds.install=false', 'CustomResourceDefinition'],
    ['namespace.create=false', 'Namespace'],
  ])('%s omits every %s', async (setting, kind) => {
    const without = (await kustomized('manifests')).filter((object) => object.kind !== kind).map(withPolicy)
    expect(sorted(await rendered(setting))).toEqual(sorted(without))
  })

  test.each([
    ['webhooks.replica=3', /replica/],
    ['webhooks.replicas="3"', /got string, want integer/],
    ['namespace=true', /want object/],
  ])('%s is refused', async (setting, words) => {
    expect(await refusalOf('template', 'virtset', chart, '--set-json', setting)).toMatch(words)
  })
})

test('Helm installs, upgrades and uninstalls it on an API server, and leaves the CRDs and their objects', async () => {
  const kubectl = (...rest: string[]) => run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest])
  const replicas = () =>
    kubectl('-n', 'virtset-system', 'get', 'deployment', 'virtset-webhooks', '-o', 'jsonpath={.spec.replicas}')
  await helm('install', 'virtset', chart)
  expect(await replicas()).toBe('2')
  await helm('upgrade', 'virtset', chart, '--set', 'webhooks.replicas=3')
  expect(await replicas()).toBe('3')
  await helm('rollback', 'virtset', '1')
  expect(await replicas()).toBe('2')
  await helm('uninstall', 'virtset')
  expect((await kubectl('get', 'crds', '-o', 'name')).trim().split('\n')).toHaveLength(11)
  expect(await kubectl('get', 'clusterroles', '-o', 'name')).not.toContain('virtset-webhooks')
})
