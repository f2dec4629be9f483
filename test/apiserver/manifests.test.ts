import { join } from 'node:path'
import { volumeOfEachKind } from '../volumes.ts'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { parseAllDocuments } from 'yaml'
import { run } from '../../cluster/command.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { launcherPod } from '../../controller/launcher-pod.ts'
import type { Persisted } from '../../runtime/resource.ts'
import { memoized } from '../memoized.ts'
import { publishedTag } from '../published-tag.ts'
import { startApiServer } from './apiserver.ts'
import type { TestApiServer } from './apiserver.ts'

let api: TestApiServer
beforeAll(async () => {
  api = await startApiServer()
  await kubectl(['create', 'namespace', 'strict'])
  await kubectl(['create', 'serviceaccount', '-n', 'strict', 'default'])
  await kubectl(['label', 'namespace', 'strict', 'pod-security.kubernetes.io/enforce=restricted'])
})
afterAll(() => api?.stop())

const kubectl = (rest: string[], input?: object) =>
  run(
    [api.kubectl, '--kubeconfig', api.kubeconfig, ...rest],
    input === undefined ? {} : { input: JSON.stringify(input) },
  )

interface PodSpec {
  readonly automountServiceAccountToken?: boolean
  readonly containers: readonly {
    readonly name: string
    readonly volumeMounts?: readonly { readonly name: string }[]
  }[]
  readonly volumes?: readonly { readonly name: string }[]
}

interface Document {
  readonly kind: string
  readonly metadata: { readonly name: string; readonly annotations?: { readonly [key: string]: string } }
  readonly spec?: { readonly template?: { readonly metadata: object; readonly spec: PodSpec } }
}

/** Once for each folder: the CRDs take seconds. */
const kustomize = memoized((folder) => kubectl(['kustomize', folder]))
const render = memoized(async (folder): Promise<Document[]> =>
  parseAllDocuments(await kustomize(folder)).map((document): Document => document.toJS()),
)

const nameOf = ({ kind, metadata }: Document) => `${kind} ${metadata.name}`

describe('overlays', () => {
  test.each<[string, string[]]>([
    [
      'cert-manager',
      [
        'Certificate virtset-webhooks',
        'Certificate virtset-webhooks-authority',
        'Issuer virtset-self-signed',
        'Issuer virtset-webhooks',
      ],
    ],
    [
      'monitoring',
      [
        'ClusterRole virtset-metrics',
        'ConfigMap virtset-dashboard',
        'NetworkPolicy virtset-metrics',
        'PrometheusRule virtset',
        'Service virtset-metrics',
        'ServiceMonitor virtset',
      ],
    ],
    [
      'object-presets',
      [
        'ClusterRole virtset-webhooks-objects',
        'ClusterRoleBinding virtset-webhooks-objects',
        'MutatingWebhookConfiguration virtset-objects',
      ],
    ],
    ['own-images', []],
    [
      'network-plugins',
      [
        'ClusterRole virtset-webhooks-networks',
        'ClusterRoleBinding virtset-webhooks-networks',
        'DaemonSet virtset-network',
      ],
    ],
  ])('%s contains the base and its own objects', async (name, own) => {
    const base = (await render('manifests')).map(nameOf)
    const overlay = (await render(`manifests/overlays/${name}`)).map(nameOf)
    expect(overlay.toSorted()).toEqual([...base, ...own].toSorted())
  })

  test('own-images replaces every image', async () => {
    const named = (folder: string) =>
      kustomize(folder).then((text) => new Set(text.match(/[^\s"']+\/virtset\/\S+:v[\d.]+/g)))
    const [published, own] = [await named('manifests'), await named('manifests/overlays/own-images')]
    expect(published).toEqual(new Set(['virtset', 'launcher'].map((name) => `ghcr.io/virtset/${name}:${publishedTag}`)))
    expect(own).toEqual(new Set([...published].map((name) => name.replace('ghcr.io', 'registry.example.org'))))
  })

  test.each(['.', 'overlays/own-images'])(
    '%s: VMs run in the image that the policy of their pods names',
    async (name) => {
      const text = await kustomize(join('manifests', name))
      const [, policy] = /- expression: '"(\S+)"'\n\s+name: image/.exec(text) ?? []
      const [, setting] = /name: LAUNCHER_IMAGE\n\s+value: (\S+)/.exec(text) ?? []
      expect(policy).toMatch(/\/launcher:v/)
      expect(setting).toBe(policy)
    },
  )

  test('with cert-manager its injector sets the caBundles', async () => {
    const documents = await render('manifests/overlays/cert-manager')
    const injected = documents.filter(({ metadata }) => metadata.annotations?.['cert-manager.io/inject-ca-from'])
    expect(injected.map(({ kind }) => kind)).toEqual(['APIService', 'APIService', 'APIService'])
  })
})

test('a NetworkPolicy that the API server accepts selects every pod of virtset', async () => {
  const documents = await render('manifests')
  const policy = documents.find(({ kind, metadata }) => kind === 'NetworkPolicy' && metadata.name === 'virtset')
  const metadata = { name: 'virtset', namespace: 'default' }
  const created = await kubectl(['create', '--dry-run=server', '-o', 'json', '-f', '-'], { ...policy, metadata })
  const { podSelector, policyTypes, ingress } = JSON.parse(created).spec
  const templates = documents.flatMap(({ spec }) => (spec?.template === undefined ? [] : [spec.template]))
  expect(templates.length).toBe(4)
  for (const template of templates) expect(template.metadata).toMatchObject({ labels: podSelector.matchLabels })
  expect([policyTypes, ingress]).toEqual([['Ingress', 'Egress'], undefined])
})

test('the API server accepts and stores every field of the workloads', async () => {
  const documents = await render('manifests/overlays/network-plugins')
  const workloads = documents.filter(({ kind }) => ['Deployment', 'DaemonSet'].includes(kind))
  expect(workloads.length).toBe(5)
  for (const workload of workloads) {
    const there = { ...workload, metadata: { ...workload.metadata, namespace: 'default' } }
    const created = await kubectl(['create', '--dry-run=server', '--validate=strict', '-o', 'json', '-f', '-'], there)
    expect(JSON.parse(created)).toMatchObject(there)
  }
})

describe('Pod Security', () => {
  const refusal = async (spec: object, metadata: object = {}): Promise<string> => {
    const account = { ...spec, serviceAccountName: 'default', priorityClassName: undefined }
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { ...metadata, name: 'pod', namespace: 'strict' } }
    return kubectl(['create', '--dry-run=server', '-f', '-'], { ...pod, spec: account }).then(
      () => '',
      (error: unknown) => String(error),
    )
  }

  test.each([
    ['virtset-webhooks', true],
    ['virtset-controller', true],
    ['virtset-profile', true],
    ['virtset-handler', false],
  ])('%s passes `restricted`: %s', async (name, isRestricted) => {
    const found = (await render('manifests')).find(
      ({ kind, metadata }) => metadata.name === name && ['Deployment', 'DaemonSet'].includes(kind),
    )
    const message = await refusal(found?.spec?.template?.spec ?? {})
    expect([message === '', message.includes('hostPath')]).toEqual([isRestricted, !isRestricted])
  })

  test('the pod that queries libvirt has no token', async () => {
    const found = (await render('manifests')).find(({ metadata }) => metadata.name === 'virtset-profile')
    const { automountServiceAccountToken, volumes = [] } = found?.spec?.template?.spec ?? {}
    expect([automountServiceAccountToken, volumes.map(({ name }) => name)]).toEqual([
      false,
      ['profile', 'private', 'tmp'],
    ])
  })

  test('the pod of a VM, with every kind of volume, passes `restricted`', async () => {
    const vm: Persisted<VirtualMachine> = {
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachine',
      metadata: { name: 'vm', namespace: 'strict', uid: 'f2a7c1de-0000-4000-8000-000000000000', resourceVersion: '1' },
      spec: {
        domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } },
        volumes: volumeOfEachKind,
      },
    }
    const { spec, metadata } = launcherPod(vm, {
      image: 'launcher:1',
      claims: new Map([['claim', { metadata: { name: 'claim' } }]]),
    })
    expect(await refusal(spec ?? {}, metadata)).toBe('')
  })
})
