import { spawnSync } from 'node:child_process'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { files, preset } from '../cli/files.ts'
import { runVm } from '../cli/world.ts'
import { startApiServer, type TestApiServer } from './apiserver.ts'

let api: TestApiServer

beforeAll(async () => {
  api = await startApiServer()
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
