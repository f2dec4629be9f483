import { spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ApiError } from '../../runtime/api-error.ts'
import { watchObjects } from '../../inventory/objects.ts'
import { kubeconfigAccess } from '../../runtime/access.ts'
import { systemClock } from '../../runtime/clock.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { writePatch } from '../../webhooks/admission/patch.ts'
import { createMayAccess } from '../../webhooks/admission/permission.ts'
import type { AdmissionRequest, AdmissionResult } from '../../webhooks/admission/request.ts'
import { createAuthorReviews } from '../../webhooks/objects/author-reviews.ts'
import { settleConfiguration } from '../../webhooks/objects/configuration-controller.ts'
import { createTenantRequests } from '../../webhooks/tenant-requests.ts'
import { files, preset } from '../cli/files.ts'
import { noSessions, runVm } from '../cli/world.ts'
import { until } from '../until.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'
import { runKubectl } from './kubectl.ts'
import { startObjectWebhooks, type ObjectWebhooks } from './object-webhooks.ts'
import { system } from './service.ts'
import { startMutatingWebhook } from './webhooks.ts'

let api: TestApiServer

const policy = {
  apiVersion: 'audit.k8s.io/v1',
  kind: 'Policy',
  omitStages: ['RequestReceived'],
  rules: [{ level: 'Metadata', verbs: ['create'], resources: [{ group: '', resources: ['pods'] }] }, { level: 'None' }],
}

beforeAll(async () => {
  api = await startApiServer(undefined, { auditPolicy: policy })
})
afterAll(() => api?.stop())

const kubectl = (words: readonly string[], input = '') =>
  spawnSync(api.kubectl, ['--kubeconfig', api.kubeconfig, ...words], { input, encoding: 'utf8', maxBuffer: 64 << 20 })

const pod = `apiVersion: v1
kind: Pod
metadata: {name: web, labels: {size: small}}
spec:
  automountServiceAccountToken: false
  containers:
  - {name: main, image: web, ports: [{containerPort: 80}]}
  volumes: [{name: data, emptyDir: {}}]
`

const small = `{target: {apiVersion: v1, kind: Pod}, selector: {matchLabels: {size: small}}, object: {
  metadata: {annotations: {team: a}},
  spec: {
    terminationGracePeriodSeconds: 5,
    tolerations: [{key: spot, operator: Exists}],
    volumes: [{name: data, configMap: {name: c}}, {name: tmp, emptyDir: {sizeLimit: 1Gi}}],
    containers: [
      {name: '*', resources: {requests: {cpu: 100m}}},
      {name: main, ports: [{containerPort: 80, protocol: TCP, name: http}], env: [{name: A, value: b}]},
      {name: side, image: side}]}}}`

test('a pod with presets, merged with the schema of the API server, is accepted by it as it is', async () => {
  const schema = kubectl(['get', '--raw', '/openapi/v3/api/v1'])
  const at = files({
    'pod.yaml': pod,
    'small.yaml': preset('small', small, 'ObjectPreset'),
    'core.json': schema.stdout,
  })
  const linted = await runVm(['lint', at('small.yaml'), '--schema', at('core.json'), '--strict'])
  expect(linted).toMatchObject({ code: 0, out: '1 preset checked\n', err: '' })
  const flags = ['--presets', at('small.yaml'), '--schema', at('core.json'), '-o', 'json']
  const { code, out, err } = await runVm(['complete', at('pod.yaml'), ...flags])
  expect([code, err]).toEqual([0, ''])
  const completed = JSON.parse(out)
  const container = { resources: { requests: { cpu: '100m' } } }
  expect(completed).toEqual({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'web', labels: { size: 'small' }, annotations: { team: 'a' } },
    spec: {
      automountServiceAccountToken: false,
      containers: [
        {
          name: 'main',
          image: 'web',
          ports: [{ containerPort: 80, name: 'http', protocol: 'TCP' }],
          env: [{ name: 'A', value: 'b' }],
          ...container,
        },
        { name: 'side', image: 'side', ...container },
      ],
      volumes: [
        { name: 'data', emptyDir: {} },
        { name: 'tmp', emptyDir: { sizeLimit: '1Gi' } },
      ],
      terminationGracePeriodSeconds: 5,
      tolerations: [{ key: 'spot', operator: 'Exists' }],
    },
  })
  // No controller creates the account without which the API server refuses pods.
  kubectl(['create', 'serviceaccount', 'default'])
  const applied = kubectl(['apply', '--server-side', '--validate=strict', '-f', '-', '-o', 'json'], out)
  expect([applied.status, applied.stderr]).toEqual([0, ''])
  // Admission plugins add tolerations.
  const { tolerations: _, ...spec } = completed.spec
  expect(JSON.parse(applied.stdout)).toMatchObject({ metadata: completed.metadata, spec })
})

const presetsOf = 'apis/virtset.io/v1alpha1'

/** The webhooks run in this process, so it must not wait for kubectl. */
const cluster = (words: readonly string[], input = '') => runKubectl(api, input, ...words)
let webhooks: ObjectWebhooks | undefined

afterAll(() => webhooks?.stop())

/** Sends a request as an administrator; the body of a refusal too. */
async function ask(method: 'POST' | 'GET' | 'PUT' | 'DELETE', path: string, body?: object): Promise<Answer> {
  if (webhooks === undefined) throw new Error('the webhooks are not started')
  return webhooks.kube.request(method, `/${path}`, body).then(
    (value) => value as Answer,
    (error: unknown) => {
      if (error instanceof ApiError) return error.status as unknown as Answer
      throw error
    },
  )
}

interface Answer {
  readonly [key: string]: unknown
  readonly message?: string
  readonly metadata: { readonly name?: string; readonly annotations?: { readonly [key: string]: string } }
  readonly spec: { readonly [key: string]: unknown }
  readonly details?: { readonly causes?: readonly { readonly field: string; readonly message: string }[] }
  readonly status?: {
    readonly conditions?: readonly { readonly type: string; readonly status: string; readonly message: string }[]
  }
  readonly webhooks?: readonly { readonly name: string; readonly objectSelector: object; readonly rules: object }[]
}

const causesOf = ({ details }: Answer) => details?.causes?.map(({ field, message }) => `${field}: ${message}`)
const containing = (...parts: readonly string[]) => parts.map((part): unknown => expect.stringContaining(part))

const own = (kind: string, name: string, spec: object) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind,
  metadata: { name, ...(kind === 'ObjectPreset' ? { namespace: 'default' } : {}) },
  spec,
})
const createTarget = (name: string, spec: object) =>
  ask('POST', `${presetsOf}/presettargets`, own('PresetTarget', name, spec))
const createPreset = (name: string, spec: object) =>
  ask('POST', `${presetsOf}/namespaces/default/objectpresets`, own('ObjectPreset', name, spec))
const createClusterPreset = (name: string, spec: object) =>
  ask('POST', `${presetsOf}/clusterobjectpresets`, own('ClusterObjectPreset', name, spec))

const podTarget = { apiVersion: 'v1', kind: 'Pod' }
const labelled = (value: string, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name: value, labels: { size: value } },
  spec: { automountServiceAccountToken: false, containers: [{ name: 'main', image: 'web' }], ...spec },
})
const createPod = (value: string, spec: object = {}) =>
  ask('POST', `api/v1/namespaces/default/pods?dryRun=All`, labelled(value, spec))

const registered = async () =>
  (await ask('GET', 'apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations/virtset-objects')).webhooks ??
  []

const conditionOf = async (path: string) => (await ask('GET', `${presetsOf}/${path}`)).status?.conditions?.[0]

/** A preset applies once the API server has read the configuration. */
const eventually = (isTrue: () => Promise<boolean>) => until(isTrue, undefined, { deadlineMs: 120_000 })

describe('in a cluster', { timeout: 600_000 }, () => {
  beforeAll(async () => {
    webhooks = await startObjectWebhooks(api, ['system:serviceaccount:x:y'])
  }, 600_000)

  test('a target is refused unless it is one kind that the API server serves and nodes do not write', async () => {
    const refused = async (name: string, spec: object) =>
      causesOf(await createTarget(name, { failurePolicy: 'Fail', ...spec }))
    expect(await refused('nodes', { apiVersion: 'v1', kind: 'Node' })).toEqual(
      containing('spec.kind: Invalid value: "Node": must not be a kind that nodes write about themselves'),
    )
    const somewhere = { apiVersion: 'v1', kind: 'Namespace', namespaceSelector: {} }
    expect(await refused('namespaces', somewhere)).toEqual(containing('must be absent: a Namespace is in no namespace'))
    expect(await refused('a', { apiVersion: 'v1', kind: 'Podd' })).toEqual(
      containing('the API server does not serve Podd of v1; did you mean Pod of v1?'),
    )
    expect(await refused('a', { ...podTarget, restricted: ['spec.hostNetwrk', 'spec.containers.name'] })).toEqual(
      containing(
        'must be "pods"',
        'there is no field hostNetwrk; did you mean "hostNetwork"?',
        'needs [*] in place of name',
      ),
    )
    expect(await refused('a', { apiVersion: 'rbac.authorization.k8s.io/v1', kind: '*' })).toEqual(
      containing('must be the name of one kind', 'must not be a group that controls access'),
    )
    expect(await refused('a', { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine' })).toEqual(
      containing('must be another group'),
    )
    expect(await registered()).toEqual([])
  })

  test('presets are applied to pods, and the API server sends only those that they can select', async () => {
    expect(causesOf(await createPreset('early', { target: podTarget, selector: {} }))).toEqual(
      containing('there is no PresetTarget for this kind, which an operator creates'),
    )
    await createTarget('pods', { ...podTarget, failurePolicy: 'Fail' })
    const selector = { matchLabels: { size: 'small' } }
    const spec = {
      terminationGracePeriodSeconds: 5,
      containers: [{ name: '*', resources: { requests: { cpu: '1' } } }],
    }
    const object = { metadata: { annotations: { team: 'a' } }, spec }
    expect(
      causesOf(await createPreset('typo', { target: podTarget, selector, object: { spec: { containrs: [] } } })),
    ).toEqual(containing('there is no such field; did you mean "containers"?'))
    await createPreset('small', { target: podTarget, selector, object })
    await eventually(async () => (await createPod('small')).metadata.annotations?.['team'] !== undefined)
    expect(await registered()).toMatchObject([
      {
        name: 'pods.0.namespaced.virtset.io',
        objectSelector: { matchExpressions: [{ key: 'size', operator: 'Exists' }] },
        rules: [{ apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }],
      },
    ])
    const created = await createPod('small')
    expect(JSON.parse(created.metadata.annotations?.['virtset.io/completed-by'] ?? '')).toMatchObject({
      by: [['default', 'small', expect.any(String)]],
      at: { metadata: { annotations: 0 }, spec: { containers: { 0: { resources: 0 } } } },
    })
    // Without evidence, what the API server filled in counts as the user's.
    expect(created.spec).toMatchObject({
      terminationGracePeriodSeconds: 30,
      containers: [{ resources: { requests: { cpu: '1' } } }],
    })
    expect((await createPod('other')).metadata.annotations).toBeUndefined()
  })

  test.each([
    ['client-side', []],
    ['server-side', ['--server-side']],
  ])('with %s apply, a default of the API server is not what the user wrote', async (name, flags) => {
    const apply = (seconds: object) => {
      const { spec, ...pod } = labelled('small', seconds)
      const manifest = { ...pod, metadata: { ...pod.metadata, name }, spec }
      return cluster(
        ['apply', ...flags, '-o', 'jsonpath={.spec.terminationGracePeriodSeconds}', '-f', '-'],
        JSON.stringify(manifest),
      )
    }
    expect(await apply({})).toMatchObject({ out: '5', err: '' })
    expect(await apply({})).toMatchObject({ out: '5', err: '' })
    await cluster(['delete', 'pod', name, '--force', '--grace-period=0'])
    expect(await apply({ terminationGracePeriodSeconds: 30 })).toMatchObject({ out: '30', err: '' })
  })

  test('what is enforced is true of every item with its key, of which the kubelet may take the last', async () => {
    const env = [{ name: 'PROXY', value: 'site' }]
    const ports = [{ containerPort: 80, hostIP: '127.0.0.1' }]
    const object = {
      spec: { containers: [{ name: '*', env, ports }], hostAliases: [{ ip: '10.0.0.1', hostnames: ['site'] }] },
    }
    const selector = { matchLabels: { size: 'proxied' } }
    await createClusterPreset('proxied', { target: podTarget, selector, strength: 'Enforce', object })
    await eventually(async () => (await createPod('proxied')).spec?.['hostAliases'] !== undefined)
    const mine = [{ name: 'PROXY', value: 'a' }, { name: 'OTHER' }, { name: 'PROXY', value: 'b' }]
    const open = [
      { containerPort: 80 },
      { containerPort: 80, hostIP: '0.0.0.0' },
      { containerPort: 80, protocol: 'UDP' },
    ]
    const created = await createPod('proxied', {
      containers: [{ name: 'main', image: 'web', env: mine, ports: open }],
      hostAliases: [
        { ip: '10.0.0.1', hostnames: ['a'] },
        { ip: '10.0.0.1', hostnames: ['b'] },
      ],
    })
    expect(created.spec).toMatchObject({
      containers: [
        {
          env: [...env, { name: 'OTHER' }, ...env],
          ports: [
            { containerPort: 80, protocol: 'TCP', hostIP: '127.0.0.1' },
            { containerPort: 80, protocol: 'TCP', hostIP: '127.0.0.1' },
            { containerPort: 80, protocol: 'UDP' },
          ],
        },
      ],
      hostAliases: [
        { ip: '10.0.0.1', hostnames: ['site'] },
        { ip: '10.0.0.1', hostnames: ['site'] },
      ],
    })
    await ask('DELETE', `${presetsOf}/clusterobjectpresets/proxied`)
  })

  test('what is enforced replaces null, which a CRD can allow', async () => {
    const text = { type: 'string' }
    const named = { type: 'object', required: ['name'], properties: { name: text, on: { type: 'boolean' } } }
    const fields = {
      security: { type: 'object', nullable: true, properties: { readOnly: { type: 'boolean' } } },
      marks: { type: 'object', nullable: true, additionalProperties: text },
      words: { type: 'array', nullable: true, items: text, 'x-kubernetes-list-type': 'set' },
      parts: {
        type: 'array',
        nullable: true,
        items: named,
        'x-kubernetes-list-type': 'map',
        'x-kubernetes-list-map-keys': ['name'],
      },
      other: { type: 'object', nullable: true, properties: { a: text } },
    }
    const schema = { openAPIV3Schema: { type: 'object', properties: { spec: { type: 'object', properties: fields } } } }
    await ask('POST', 'apis/apiextensions.k8s.io/v1/customresourcedefinitions', {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'nullables.example.test' },
      spec: {
        group: 'example.test',
        scope: 'Namespaced',
        names: { plural: 'nullables', singular: 'nullable', kind: 'Nullable', listKind: 'NullableList' },
        versions: [{ name: 'v1', served: true, storage: true, schema }],
      },
    })
    const target = { apiVersion: 'example.test/v1', kind: 'Nullable' }
    await eventually(async () => {
      const created = await createTarget('nullables.example.test', { ...target, failurePolicy: 'Fail' })
      return created.details?.causes === undefined
    })
    const spec = {
      security: { readOnly: true },
      marks: { a: 'b' },
      words: ['x'],
      parts: [{ name: 'n', on: true }],
    }
    await createClusterPreset('nullable', { target, selector: {}, strength: 'Enforce', object: { spec } })
    const create = (given: object) =>
      ask('POST', 'apis/example.test/v1/namespaces/default/nullables?dryRun=All', {
        ...target,
        metadata: { name: 'one' },
        spec: given,
      })
    await eventually(async () => (await create({})).spec?.['words'] !== undefined)
    const nulls = { security: null, marks: null, words: null, parts: null, other: null }
    expect((await create(nulls)).spec).toEqual({ ...spec, other: null })
    await ask('DELETE', `${presetsOf}/clusterobjectpresets/nullable`)
    await ask('DELETE', `${presetsOf}/presettargets/nullables.example.test`)
  })

  test('a conflict is refused with every field, and a preset in mode Warn only warns', async () => {
    const selector = { matchLabels: { size: 'torn' } }
    const spec = (host: string) => ({ nodeName: host, hostname: host })
    const preset = (host: string) => ({ target: podTarget, selector, object: { spec: spec(host) } })
    await createPreset('one', preset('a'))
    await createPreset('two', { ...preset('b'), mode: 'Warn' })
    const create = () =>
      cluster(
        ['create', '--dry-run=server', '-f', '-', '-o', 'jsonpath={.spec.hostname}'],
        JSON.stringify(labelled('torn')),
      )
    await eventually(async () => (await create()).err.includes('two'))
    expect(await create()).toMatchObject({
      out: 'a',
      err: 'Warning: preset "default/two" (mode Warn) would change spec.hostname, spec.nodeName\n',
    })
    await createPreset('three', { ...preset('c'), mode: 'Apply' })
    await eventually(async () => (await createPod('torn')).details !== undefined)
    const disagree = 'disagree: "default/one" sets "a", "default/three" sets "c"'
    expect(causesOf(await createPod('torn'))).toEqual(containing(disagree, disagree))
  })

  test('a preset applies to the next object, and one in mode Audit is only logged', async () => {
    const target = podTarget
    for (let index = 0; index < 10; index++) {
      const preset = (name: string) => ({ object: { metadata: { annotations: { [name]: `${index}` } } } })
      const selector = { matchLabels: { size: 'small', turn: `${index}` } }
      await createPreset(`turn-${index}`, { target, selector, ...preset('turn') })
      await createPreset(`audit-${index}`, { target, selector, ...preset('audited'), mode: 'Audit' })
      const { metadata, ...pod } = labelled('small')
      const labels = { ...metadata.labels, turn: `${index}` }
      const created = await ask('POST', 'api/v1/namespaces/default/pods?dryRun=All', {
        ...pod,
        metadata: { ...metadata, labels },
      })
      const { turn, audited } = created.metadata.annotations ?? {}
      expect([turn, audited]).toEqual([`${index}`, undefined])
    }
    const logged = () => readFileSync(join(api.directory, 'audit.log'), 'utf8')
    await eventually(async () => logged().includes('default/audit-9: metadata.annotations.audited'))
  })

  test('presets are applied again to what another webhook has added', async () => {
    const add = ({ object }: AdmissionRequest): AdmissionResult => {
      const value = { name: 'side', image: 'side' }
      const isThere = JSON.stringify(object).includes('"side"')
      return { allowed: true, patch: writePatch(isThere ? [] : [{ op: 'add', path: '/spec/containers/-', value }]) }
    }
    const rule = { apiGroups: [''], apiVersions: ['v1'], operations: ['CREATE'], resources: ['pods'] }
    const other = await startMutatingWebhook(api, add, { rule, label: 'sidecar' })
    const { metadata, ...pod } = labelled('small')
    const body = { ...pod, metadata: { ...metadata, labels: { ...metadata.labels, sidecar: 'yes' } } }
    const create = () => ask('POST', 'api/v1/namespaces/default/pods?dryRun=All', body)
    await eventually(async () => JSON.stringify((await create()).spec).includes('"side"'))
    const created = await create()
    const requests = { cpu: '1' }
    expect(created.spec['containers']).toMatchObject([
      { name: 'main', resources: { requests } },
      { name: 'side', resources: { requests } },
    ])
    expect(JSON.parse(created.metadata.annotations?.['virtset.io/completed-by'] ?? '')).toMatchObject({
      by: [['default', 'small', expect.any(String)]],
      at: { metadata: { annotations: 0 }, spec: { containers: { 0: { resources: 0 }, 1: { resources: 0 } } } },
    })
    await cluster(['delete', 'mutatingwebhookconfiguration', 'zz-other'])
    await other.drain(0)
  })

  test('a preset is quarantined when its target restricts what it sets, and applied again after', async () => {
    const selector = { matchLabels: { size: 'hosted' } }
    await createPreset('hosted', { target: podTarget, selector, object: { spec: { hostname: 'h' } } })
    await eventually(async () => (await createPod('hosted')).spec['hostname'] === 'h')
    const restrict = async (restricted: readonly string[]) => {
      const path = `${presetsOf}/presettargets/pods`
      const { metadata } = await ask('GET', path)
      const changed = { ...own('PresetTarget', 'pods', { ...podTarget, failurePolicy: 'Fail', restricted }), metadata }
      return (await ask('PUT', path, changed)).spec !== undefined
    }
    await eventually(() => restrict(['spec.hostname']))
    await eventually(async () => (await createPod('hosted')).spec['hostname'] === undefined)
    const warned = await cluster(['create', '--dry-run=server', '-f', '-'], JSON.stringify(labelled('hosted')))
    expect(warned.err).toContain('Warning: preset "default/hosted" is broken and left out; see its status')
    await eventually(async () => (await conditionOf('namespaces/default/objectpresets/hosted'))?.status === 'False')
    expect((await conditionOf('namespaces/default/objectpresets/hosted'))?.message).toContain('is restricted')
    await eventually(() => restrict([]))
    await eventually(async () => (await createPod('hosted')).spec['hostname'] === 'h')
    await eventually(async () => (await conditionOf('namespaces/default/objectpresets/hosted'))?.status === 'True')
  })

  test('who writes a preset must be allowed to write the objects, and a restricted field needs a grant', async () => {
    const definition = {
      apiVersion: 'apiextensions.k8s.io/v1',
      kind: 'CustomResourceDefinition',
      metadata: { name: 'instances.kubevirt.test' },
      spec: {
        group: 'kubevirt.test',
        scope: 'Namespaced',
        names: { plural: 'instances', singular: 'instance', kind: 'Instance', listKind: 'InstanceList' },
        versions: [{ name: 'v1', served: true, storage: true, schema: { openAPIV3Schema: instanceSchema } }],
      },
    }
    await ask('POST', 'apis/apiextensions.k8s.io/v1/customresourcedefinitions', definition)
    const target = { apiVersion: 'kubevirt.test/v1', kind: 'Instance' }
    const restricted = ['spec.host']
    await eventually(async () => {
      const { details } = await createTarget('instances.kubevirt.test', {
        ...target,
        failurePolicy: 'Fail',
        restricted,
      })
      return details?.causes === undefined
    })
    const rules = (resources: string, apiGroups: string) => ({
      apiGroups: [apiGroups],
      resources: [resources],
      verbs: ['*'],
    })
    const role = (name: string, ...all: readonly object[]) => [
      { apiVersion: 'rbac.authorization.k8s.io/v1', kind: 'ClusterRole', metadata: { name }, rules: all },
      {
        apiVersion: 'rbac.authorization.k8s.io/v1',
        kind: 'ClusterRoleBinding',
        metadata: { name },
        roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'ClusterRole', name },
        subjects: [{ apiGroup: 'rbac.authorization.k8s.io', kind: 'User', name }],
      },
    ]
    const write = { apiGroups: ['virtset.io'], resources: ['objectpresets', 'clusterobjectpresets'], verbs: ['create'] }
    const instances = rules('instances', 'kubevirt.test')
    const items = [...role('jane', write), ...role('joe', write, instances)]
    await cluster(['apply', '-f', '-'], JSON.stringify({ apiVersion: 'v1', kind: 'List', items }))
    const as = async (user: string, kind: string, spec: object) => {
      const preset = own(kind, `of-${user}`, { target, selector: {}, ...spec })
      return (await cluster(['create', `--as=${user}`, '-f', '-'], JSON.stringify(preset))).err
    }
    const host = { object: { spec: { host: 'x' } } }
    // The API server learns of the roles later.
    await eventually(async () => !(await as('jane', 'ObjectPreset', {})).includes('cannot create resource'))
    expect(await as('jane', 'ObjectPreset', {})).toContain(
      'requires the permission to create and update instances in namespace "default"',
    )
    expect(await as('joe', 'ObjectPreset', host)).toContain('only a ClusterObjectPreset can set or remove it')
    expect(await as('joe', 'ClusterObjectPreset', host)).toContain(
      'requires the verb "grant-host" on clusterobjectpresets',
    )
    expect(await as('joe', 'ObjectPreset', { object: { spec: { size: 2, policy: 'Never' } } })).toContain(
      'Warning: spec.selector: {} selects every object',
    )
    const enforced = { strength: 'Enforce', object: { spec: { host: 'x' }, metadata: { labels: { zone: 'z' } } } }
    expect((await createClusterPreset('site', { target, selector: {}, ...enforced })).details).toBeUndefined()
    expect(
      (
        await createClusterPreset('elsewhere', {
          target,
          selector: {},
          namespaceSelector: { matchLabels: { a: 'b' } },
          object: { spec: { size: 9 } },
        })
      ).details,
    ).toBeUndefined()
    const create = (namespace: string, spec: object) =>
      ask('POST', `apis/kubevirt.test/v1/namespaces/${namespace}/instances?dryRun=All`, {
        apiVersion: 'kubevirt.test/v1',
        kind: 'Instance',
        metadata: { name: 'i' },
        spec,
      })
    await eventually(async () => (await create('default', {})).spec['host'] === 'x')
    // The default of the schema counts as the user's, because the request has no evidence of who wrote it.
    expect((await create('default', { host: 'mine' })).spec).toEqual({ host: 'x', size: 2, policy: 'Always' })
    await cluster(['create', 'namespace', 'other'])
    // The namespace of the first preset has a webhook of its own, which was registered earlier.
    await eventually(async () => (await create('other', {})).spec['host'] === 'x')
    expect((await create('other', {})).spec).toEqual({ host: 'x', policy: 'Always' })
    expect(await conditionOf('presettargets/instances.kubevirt.test')).toMatchObject({ type: 'Ready', status: 'True' })
    expect(await conditionOf('namespaces/default/objectpresets/of-joe')).toMatchObject({
      type: 'Accepted',
      status: 'True',
    })
  })

  test('a user with the verb exempt can exclude a preset, and a permission that an author lost is reported', async () => {
    const target = { apiVersion: 'kubevirt.test/v1', kind: 'Instance' }
    const as = async (user: string, excluded: string) => {
      const annotations = { 'virtset.io/exclude-presets': excluded }
      const instance = { ...target, metadata: { name: 'e', annotations }, spec: {} }
      const words = ['create', `--as=${user}`, '--dry-run=server', '-o', 'jsonpath={.spec}', '-f', '-']
      return cluster(words, JSON.stringify(instance))
    }
    expect(await as('joe', 'site')).toMatchObject({
      out: expect.stringContaining('"host":"x"'),
      err: expect.stringContaining('preset "site" applies: to exclude it requires the verb "exempt" on it'),
    })
    expect((await as('joe', 'of-joe')).out).not.toContain('"size"')
    await cluster(['create', 'clusterrole', 'exempter', '--verb=exempt', '--resource=clusterobjectpresets.virtset.io'])
    await cluster(['create', 'clusterrolebinding', 'exempter', '--clusterrole=exempter', '--user=joe'])
    await eventually(async () => !(await as('joe', 'site')).out.includes('"host":"x"'))

    const path = 'namespaces/default/objectpresets/of-joe'
    const { metadata } = await ask('GET', `${presetsOf}/${path}`)
    expect(JSON.parse(metadata.annotations?.['virtset.io/author'] ?? '')).toEqual({
      username: 'joe',
      groups: ['system:authenticated'],
    })
    const permitted = async () =>
      (await ask('GET', `${presetsOf}/${path}`)).status?.conditions?.find(({ type }) => type === 'Permitted')
    await eventually(async () => (await permitted())?.status === 'True')
    await cluster(['delete', 'clusterrolebinding', 'joe'])
    if (webhooks === undefined) throw new Error('the webhooks are not started')
    const { options } = webhooks
    await eventually(async () => {
      const reviews = createAuthorReviews(
        createMayAccess(createTenantRequests(options.kube), systemClock),
        options.log,
        systemClock,
      )
      await settleConfiguration({ ...options, reviews })
      return (await permitted())?.status === 'False'
    })
    expect((await permitted())?.message).toContain(
      'the author joe has lost a permission; the preset stays in use: spec.target: writing a preset requires the ' +
        'permission to create and update instances in namespace "default"',
    )
  })

  test('the command line completes and explains objects as the cluster does', async () => {
    const instance = 'apiVersion: kubevirt.test/v1\nkind: Instance\nmetadata: {name: mine}\nspec: {host: mine}\n'
    const at = files({
      'mine.yaml': instance,
      'typo.yaml': preset(
        'typo',
        '{target: {apiVersion: kubevirt.test/v1, kind: Instance}, selector: {}, object: {spec: {sise: 3}}}',
        'ObjectPreset',
      ),
      'pair.yaml': preset(
        'pair',
        '{target: {apiVersion: v1, kind: Pod}, selector: {}, object: {spec: {hostname: a}}}',
        'ObjectPreset',
      ),
      'pod.yaml': pod,
      'map.yaml': 'apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\n',
    })
    const warned = 'Warning: preset "site" changed spec.host, which was "mine"\n'
    const completed = await online('complete', at('mine.yaml'), '-o', 'json')
    expect([completed.code, completed.err]).toEqual([0, warned])
    const applied = await cluster(['apply', '--server-side', '-o', 'json', '-f', at('mine.yaml')])
    expect(applied.err).toBe(warned)
    const { metadata, spec } = JSON.parse(applied.out)
    expect(JSON.parse(completed.out)).toMatchObject({ metadata: { labels: metadata.labels }, spec })
    expect(spec).toEqual({ host: 'x', size: 2, policy: 'Never' })

    const fields = [
      { path: 'metadata.labels.zone', value: 'z', preset: 'site' },
      { path: 'spec.host', value: 'x', preset: 'site', overridden: [{ user: true, value: 'mine' }] },
      { path: 'spec.policy', value: 'Never', preset: 'default/of-joe' },
      { path: 'spec.size', value: 2, preset: 'default/of-joe' },
    ]
    const presets = [
      { preset: 'site', layer: 'cluster Enforce', outcome: 'applied' },
      { preset: 'default/of-joe', layer: 'namespace Default', outcome: 'applied' },
    ]
    for (const word of [at('mine.yaml'), 'instances.kubevirt.test/mine', 'instance/mine']) {
      const { code, out } = await online('explain', word, '-o', 'json')
      const explained = JSON.parse(out)
      expect([word, code, explained.object]).toEqual([word, 0, 'Instance default/mine'])
      expect(explained.fields.toSorted(byPath)).toMatchObject(fields)
      expect(explained.presets).toMatchObject(presets)
    }

    const changed = files({
      'larger.yaml': preset(
        'of-joe',
        '{target: {apiVersion: kubevirt.test/v1, kind: Instance}, selector: {}, object: {spec: {size: 3, policy: Never}}}',
        'ObjectPreset',
      ),
    })
    expect(await online('impact', '--presets', changed('larger.yaml'))).toEqual({
      code: 1,
      out: `default: 1 of 1 object would differ
  Instance mine
    ~ spec.size: 2 → 3
1 namespace: 1 of 1 object would differ
`,
      err: '',
    })

    // Schemas come from the cluster.
    expect(await online('lint', at('typo.yaml'))).toMatchObject({
      code: 1,
      err: expect.stringContaining(
        'spec.object.spec.sise: Invalid value: 3: there is no such field; did you mean "size"?',
      ),
    })
    const paired = await online('complete', at('pod.yaml'), '--presets', at('pair.yaml'), '-o', 'json')
    expect(JSON.parse(paired.out).spec.hostname).toBe('a')
    expect(await online('complete', at('map.yaml'))).toMatchObject({
      code: 2,
      err: expect.stringContaining('applies no presets to ConfigMap of v1: it has no PresetTarget for it'),
    })
  })

  test.each([
    ['client-side apply', ['apply']],
    ['server-side apply', ['apply', '--server-side']],
  ])('an update by %s keeps what presets have set, and nothing new is set', async (name, verb) => {
    const manifest = (host: string) =>
      JSON.stringify({
        apiVersion: 'kubevirt.test/v1',
        kind: 'Instance',
        metadata: { name: name.replace(' ', '-'), labels: { host } },
        spec: {},
      })
    const send = async (words: readonly string[], host: string) => {
      const { out, err } = await cluster([...words, '-o', 'json', '-f', '-'], manifest(host))
      if (out === '') throw new Error(err)
      return JSON.parse(out).spec
    }
    const set = { host: 'x', size: 2, policy: 'Never' }
    expect(await send(verb, 'a')).toEqual(set)
    expect(await send(verb, 'b')).toEqual(set)
    // A replaced object has what the manifest has, and the defaults of the schema.
    expect(await send(['replace'], 'c')).toEqual({ policy: 'Always' })
  })

  test.each([
    ['of a mirrored pod', { 'kubernetes.io/config.mirror': 'x' }],
    ['of kubectl apply, with a manifest of any depth', { [lastApplied]: deepManifest }],
  ])('a user cannot keep presets away with the annotation %s', async (_, annotations) => {
    const { metadata, ...pod } = labelled('small', { nodeName: 'n' })
    const path = 'api/v1/namespaces/default/pods?dryRun=All&fieldManager=kubectl-client-side-apply'
    const created = await ask('POST', path, { ...pod, metadata: { ...metadata, annotations } })
    expect(created).toMatchObject({ metadata: { annotations: { team: 'a' } } })
  })

  test('presets that are not applied any more still count in the limit of their namespace', async () => {
    const target = { apiVersion: 'v1', kind: 'ConfigMap' }
    const spec = { ...target, failurePolicy: 'Ignore' }
    const stating = (object: object) => ({ target, selector: { matchLabels: { a: 'b' } }, object })
    await createTarget('configmaps', spec)
    const large = stating({ data: { text: 'x'.repeat(60_000) } })
    for (let index = 0; index < 17; index++) {
      // The target is not read at once, and a busy webhook can be too late. Presets of other tests may fill the limit.
      await eventually(async () =>
        /exists|must count at most/.test((await createPreset(`large-${index}`, large)).message ?? ''),
      )
    }
    const path = `${presetsOf}/presettargets/configmaps`
    const restricted = own('PresetTarget', 'configmaps', { ...spec, restricted: ['data'] })
    // The webhooks write its status meanwhile.
    await eventually(async () => {
      const { metadata } = await ask('GET', path)
      return (await ask('PUT', path, { ...restricted, metadata })).spec !== undefined
    })
    const small = stating({ data: { text: 'x' } })
    const isRestricted = async () =>
      JSON.stringify(causesOf(await createPreset('small', small)) ?? []).includes('restricted')
    await eventually(isRestricted)
    const other = stating({ metadata: { annotations: { text: 'x'.repeat(60_000) } } })
    expect(causesOf(await createPreset('other', other))).toEqual(
      containing('the presets of namespace "default" must count at most 1048576 together'),
    )
    for (let index = 0; index < 17; index++) {
      await ask('DELETE', `${presetsOf}/namespaces/default/objectpresets/large-${index}`)
    }
    await ask('DELETE', path)
    await eventually(async () => !JSON.stringify(await registered()).includes('configmaps'))
  })

  test.each<[string, string, object, object]>([
    ['namespaces', 'v1', { kind: 'Namespace' }, {}],
    ['priorityclasses', 'scheduling.k8s.io/v1', { kind: 'PriorityClass' }, { value: 5 }],
  ])(
    'presets of the cluster are applied to %s, which are in no namespace',
    async (resource, apiVersion, of, fields) => {
      const target = { apiVersion, ...of }
      const [group] = apiVersion.split('/')
      await createTarget(group === 'v1' ? resource : `${resource}.${group}`, { ...target, failurePolicy: 'Ignore' })
      const spec = {
        target,
        selector: {},
        matchConditions: [{ name: 'none', expression: 'namespaceObject == null' }],
        object: { metadata: { labels: { zone: 'z' } } },
      }
      // The target is not read at once.
      await eventually(async () => (await createClusterPreset(resource, spec)).spec !== undefined)
      expect(causesOf(await createPreset(resource, spec))).toEqual(
        containing('only a ClusterObjectPreset can select a'),
      )
      const path = `${group === 'v1' ? 'api' : 'apis'}/${apiVersion}/${resource}`
      const object = { ...target, metadata: { name: 'zoned' }, ...fields }
      await eventually(async () =>
        JSON.stringify(await ask('POST', `${path}?dryRun=All`, object)).includes('"zone":"z"'),
      )
      await ask('POST', path, object)
      const { code, out } = await online('explain', `${String(Object.values(of)[0]).toLowerCase()}/zoned`, '-o', 'json')
      expect([code, JSON.parse(out)]).toMatchObject([
        0,
        {
          object: `${Object.values(of)[0]} zoned`,
          fields: expect.arrayContaining([expect.objectContaining({ path: 'metadata.labels.zone', preset: resource })]),
        },
      ])
    },
  )

  test('a replica that cannot read the schemas of kinds leaves their webhooks registered', async () => {
    if (webhooks === undefined) throw new Error('the webhooks are not started')
    const before = await registered()
    expect(before.length).toBeGreaterThan(0)
    const kube: KubeClient = {
      ...webhooks.kube,
      request: (method, path, ...rest) =>
        path.startsWith('/openapi')
          ? Promise.reject(new Error('no schemas'))
          : (webhooks?.kube.request(method, path, ...rest) ?? Promise.reject(new Error('stopped'))),
    }
    const { options } = webhooks
    const { log } = options
    const objects = watchObjects({ kube, log, clock: systemClock, protectedNamespaces: ['kube-system', system] })
    await Promise.all(objects.reflectors.map((reflector) => reflector.synced()))
    const reviews = createAuthorReviews(() => Promise.resolve(true), log, systemClock)
    await settleConfiguration({ ...options, kube, objects, reviews })
    await objects.stop()
    expect(await registered()).toEqual(before)
  })
})

const byPath = (left: { readonly path: string }, right: { readonly path: string }) => (left.path < right.path ? -1 : 1)

/** `kubectl vm` with the kubeconfig of the test's cluster. */
const online = (...words: string[]) =>
  runVm(words, {
    cluster: async () => {
      const access = await kubeconfigAccess({ file: api.kubeconfig })
      return {
        ...noSessions,
        kube: createKubeClient({ access, userAgent: 'kubectl-vm' }),
        access,
        server: access.server,
      }
    },
  })

const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'
const deepManifest = `{"apiVersion": "v1", "spec": {"containers": [{"name": ${'['.repeat(100_000)}${']'.repeat(100_000)}}]}}`

const instanceSchema = {
  type: 'object',
  properties: {
    spec: {
      type: 'object',
      properties: {
        size: { type: 'integer' },
        policy: { type: 'string', default: 'Always' },
        host: { type: 'string' },
      },
    },
  },
}
