import { expect, test } from 'vitest'
import { parse } from 'yaml'
import { chartValues } from './chart-values.ts'
import { renderChart, type KubernetesObject, type Renderings } from './chart.ts'

/** Objects with each field that a value of the chart sets, and nothing else. */
function objectsWithEachPlace(): KubernetesObject[] {
  const objects = new Map<string, KubernetesObject>()
  for (const { path, object: identity, isOptional } of chartValues.flatMap(({ places }) => places)) {
    const [kind = '', name = ''] = identity.split(' ')
    const object = objects.get(identity) ?? { apiVersion: 'v1', kind, metadata: { name } }
    objects.set(identity, object)
    if (isOptional !== true) put(object, path.split('.'), 'r.example/v/image:1')
  }
  return [...objects.values()]
}

/** Sets a field, and creates missing parents. */
function put(at: object, [step = '', ...rest]: readonly string[], value: string): void {
  const target = at as Record<string, unknown>
  const [, key = '', wanted] = /^\[(\w+)=(.+)\]$/.exec(step) ?? []
  if (Array.isArray(at)) {
    const found = key === '' ? at[0] : at.find((each) => each[key] === wanted)
    const item = found ?? (key === '' ? {} : { [key]: wanted })
    if (found === undefined) at.push(item)
    return put(item, rest, value)
  }
  if (rest.length === 0) target[step] = value
  else put((target[step] ??= /^(\d|\[)/.test(rest[0] ?? '') ? [] : {}) as object, rest, value)
}

const renderings = (over: Partial<Renderings> = {}): Renderings => ({
  base: objectsWithEachPlace(),
  overlays: {},
  ...over,
})
const plain: KubernetesObject = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'c' } }
const labelled = (label: string) => ({ ...plain, metadata: { name: 'c', annotations: { label } } })
const templateOf = (over: Partial<Renderings>) => renderChart(renderings(over), '1.2.3')['templates/configmap-c.yaml']

test('an object that no overlay changes is rendered unchanged, with its braces escaped', () => {
  expect(templateOf({ base: [...objectsWithEachPlace(), labelled('{{x}}')] })).toBe(
    'apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n  annotations:\n    label: "{{ "{{" }}x}}"\n',
  )
})

test('an object that an overlay changes has two branches', () => {
  const base = [...objectsWithEachPlace(), plain]
  expect(templateOf({ base, overlays: { 'kvm.enabled': [labelled('a')] } })).toBe(
    `{{- if .Values.kvm.enabled }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
  annotations:
    label: a
{{- else }}
apiVersion: v1
kind: ConfigMap
metadata:
  name: c
{{- end }}
`,
  )
})

test('an object that only an overlay has is rendered when it is on', () => {
  expect(templateOf({ overlays: { 'kvm.enabled': [plain] } })).toBe(
    '{{- if .Values.kvm.enabled }}\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n{{- end }}\n',
  )
})

test('two overlays must not change one object', () => {
  const overlays = { 'kvm.enabled': [labelled('a')], 'monitoring.enabled': [labelled('b')] }
  expect(() => templateOf({ overlays })).toThrow(
    'ConfigMap c is changed by the overlays kvm.enabled and monitoring.enabled',
  )
})

test('a value whose field is not in the manifests is an error', () => {
  const base = objectsWithEachPlace().filter(({ metadata }) => metadata.name !== 'virtset-handler')
  expect(() => renderChart(renderings({ base }), '1.2.3')).toThrow(
    'DaemonSet virtset-handler has no spec.template.spec.containers.[name=handler].image for the value images.virtset',
  )
})

test('defaults come from the manifests; the image is split into prefix and name', () => {
  const values = parse(renderChart(renderings(), '1.2.3')['values.yaml'] ?? '')
  expect(values.images).toEqual({ prefix: 'r.example/v', virtset: 'image:1', launcher: 'image:1' })
  expect(values.imagePullSecrets).toEqual([])
})
