import { stringify } from 'yaml'

import { chartValues, expressionOf, type ChartValue, type Place } from './chart-values.ts'

/** An object rendered by kustomize. */
export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly annotations?: Readonly<Record<string, string>>
  }
}

/** The renderings of `manifests/` by kustomize: the base, and the overlays that a chart value enables. */
export interface Renderings {
  readonly base: readonly KubernetesObject[]
  /** By the value that enables the overlay, e.g. `monitoring.enabled`. */
  readonly overlays: Readonly<Record<string, readonly KubernetesObject[]>>
}

/** The overlays of `manifests/`, by the value that enables them. */
export const switches: Readonly<Record<string, string>> = {
  'certManager.enabled': 'cert-manager',
  'monitoring.enabled': 'monitoring',
  'objectPresets.enabled': 'object-presets',
  'networkPlugins.enabled': 'network-plugins',
}

/** The files of a chart, by path. */
export type ChartFiles = Readonly<Record<string, string>>

/**
 * A Helm chart that renders the same objects as kustomize. Everything in it is derived from `manifests/`: an object
 * that an overlay changes becomes two branches of a condition, and the fields in `chart-values.ts` take their defaults
 * from the manifests.
 *
 * @param version semantic version without a leading v
 * @throws Error if two overlays change the same object, or a value has a place that is not in the manifests
 */
export function renderChart(renderings: Renderings, version: string): ChartFiles {
  const values = chartValues.map((value) => ({ ...value, default: defaultOf(value, renderings) }))
  return {
    'Chart.yaml': chartYaml(version),
    'values.yaml': valuesYaml(values),
    'values.schema.json': `${JSON.stringify(schemaOf(values), undefined, 2)}\n`,
    'README.md': readme(values),
    'templates/NOTES.txt': notes,
    ...templates(renderings),
  }
}

/** Identifies an object within one rendering, and names its template. */
export const identityOf = ({ kind, metadata }: KubernetesObject) => `${kind} ${metadata.name}`

type ValueWithDefault = ChartValue & { readonly default: unknown }

function templates({ base, overlays }: Renderings): ChartFiles {
  const identities = new Set([base, ...Object.values(overlays)].flat().map(uniqueIdentity))
  return Object.fromEntries(
    [...identities].map((identity) => [
      `templates/${identity.toLowerCase().replaceAll(/[^a-z0-9]+/g, '-')}.yaml`,
      templateOf(identity, base, overlays),
    ]),
  )
}

/** Includes the namespace, because objects of different namespaces can share kind and name, as two RoleBindings do. */
const uniqueIdentity = (object: KubernetesObject) => `${identityOf(object)} ${object.metadata.namespace ?? ''}`.trim()

function templateOf(identity: string, base: Renderings['base'], overlays: Renderings['overlays']): string {
  const find = (objects: readonly KubernetesObject[]) => objects.find((object) => uniqueIdentity(object) === identity)
  const plain = find(base)
  const variants = Object.entries(overlays).flatMap(([value, objects]) => {
    const object = find(objects)
    return object === undefined || JSON.stringify(object) === JSON.stringify(plain) ? [] : [{ value, object }]
  })
  const [variant, ...others] = variants
  if (others.length > 0)
    throw new Error(`${identity} is changed by the overlays ${variants.map(({ value }) => value).join(' and ')}`)
  const otherwise = plain === undefined ? '' : objectTemplate(plain)
  if (variant === undefined) return guarded(identity, otherwise)
  const branches = [`{{- if .Values.${variant.value} }}\n`, objectTemplate(variant.object)]
  if (otherwise !== '') branches.push('{{- else }}\n', otherwise)
  return guarded(identity, `${branches.join('')}{{- end }}\n`)
}

/** Makes objects optional that some installations already have or want to keep. */
function guarded(identity: string, template: string): string {
  const [kind = ''] = identity.split(' ')
  const value = { Namespace: 'namespace.create', CustomResourceDefinition: 'crds.install' }[kind]
  return value === undefined ? template : `{{- if .Values.${value} }}\n${template}{{- end }}\n`
}

function objectTemplate(object: KubernetesObject): string {
  const places = chartValues
    .flatMap((value) => value.places.map((place) => ({ value, place })))
    .filter(({ place }) => place.object === identityOf(object))
  // Deleting a release must not delete the CRDs, and every VM with them.
  const copied =
    object.kind === 'CustomResourceDefinition'
      ? withAnnotations(object, { 'helm.sh/resource-policy': 'keep' })
      : structuredClone(object)
  const marked = places.filter(({ place }, index) => mark(copied, place, index))
  const text = stringify(copied, { lineWidth: 0, compat: 'yaml-1.1' }).replaceAll('{{', '{{ "{{" }}')
  return marked.reduce((template, { value, place }) => {
    const marker = markerOf(places.findIndex((each) => each.place === place))
    const line = new RegExp(`^( *(?:- )?)([A-Za-z]+): ${marker}$`, 'm')
    if (!line.test(template)) throw new Error(`${place.object} has no line of its own for ${place.path}`)
    return template.replace(line, (_, indent: string, key: string) =>
      place.isOptional === true
        ? `${indent}{{- with .Values.${value.name} }}\n${indent}${key}: {{ toJson . }}\n${indent}{{- end }}`
        : `${indent}${key}: {{ ${expressionOf(value, place)} }}`,
    )
  }, text)
}

const withAnnotations = (object: KubernetesObject, added: Readonly<Record<string, string>>): KubernetesObject => ({
  ...structuredClone(object),
  metadata: { ...object.metadata, annotations: { ...object.metadata.annotations, ...added } },
})

const markerOf = (index: number) => `value-${index}-here`

/**
 * Puts a marker in the field of a place. Returns false if the object has no such field because an overlay removed it.
 */
function mark(object: KubernetesObject, { path, isOptional = false }: Place, index: number): boolean {
  const steps = path.split('.')
  const last = steps.pop() ?? ''
  const parent = steps.reduce<unknown>(stepInto, object)
  if (!isRecord(parent) || (!(last in parent) && !isOptional)) return false
  parent[last] = markerOf(index)
  return true
}

/** Resolves a step of a path in kustomize's form: `spec`, or `0` or `[name=webhooks]` for an item of a list. */
function stepInto(value: unknown, step: string): unknown {
  if (!Array.isArray(value)) return isRecord(value) ? value[step] : undefined
  const [, key = '', wanted] = /^\[(\w+)=(.+)\]$/.exec(step) ?? []
  return key === '' ? value[Number(step)] : value.find((each) => isRecord(each) && each[key] === wanted)
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/**
 * The default of a value: the stated one, otherwise the value in its first place in the manifests. Throws unless the
 * manifests have all its places.
 */
function defaultOf(value: ChartValue, { base, overlays }: Renderings): unknown {
  const objects = [base, ...Object.values(overlays)].flat()
  const [first] = value.places
    .filter(({ isOptional = false }) => !isOptional)
    .map((place) => {
      const object = objects.find((each) => identityOf(each) === place.object)
      const found = place.path.split('.').reduce<unknown>(stepInto, object)
      if (found === undefined) throw new Error(`${place.object} has no ${place.path} for the value ${value.name}`)
      return found
    })
  if (value.default !== undefined) return value.default
  return value.read === undefined ? first : value.read(JSON.stringify(first).slice(1, -1))
}

const chartYaml = (version: string) => `apiVersion: v2
name: virtset
description: Virtual machines on Kubernetes, defined in a few lines and completed by presets
type: application
version: ${version}
appVersion: v${version}
# Admission policies and matchConditions are stable from this version on.
kubeVersion: ">=1.30.0-0"
home: https://github.com/virtset/virtset
sources: [https://github.com/virtset/virtset]
annotations: {artifacthub.io/license: Apache-2.0}
`

const notes = `virtset {{ .Chart.AppVersion }} is installed in the namespace virtset-system.

    kubectl -n virtset-system rollout status deployment/virtset-webhooks

Uninstalling the release keeps the CRDs, and with them your VMs and presets.
`

/** Groups values by the part of the name before the dot. */
const grouped = (values: readonly ValueWithDefault[]) => [
  ...Map.groupBy(values, ({ name }) => name.split('.')[0] ?? ''),
]

const flow = (value: unknown) =>
  stringify(value, { collectionStyle: 'flow', lineWidth: 0, flowCollectionPadding: false, compat: 'yaml-1.1' }).trim()

function valuesYaml(values: readonly ValueWithDefault[]): string {
  const entry = (value: ValueWithDefault, indent: string, key: string) =>
    `${indent}# ${value.description}\n${indent}${key}: ${flow(value.default)}\n`
  const group = ([name, members]: [string, ValueWithDefault[]]) =>
    members.some((each) => each.name === name)
      ? members.map((each) => entry(each, '', name)).join('')
      : `${name}:\n${members.map((each) => entry(each, '  ', each.name.slice(name.length + 1))).join('')}`
  return grouped(values).map(group).join('\n')
}

function schemaOf(values: readonly ValueWithDefault[]): object {
  const object = (properties: object) => ({ type: 'object', additionalProperties: false, properties })
  const leaf = (value: ValueWithDefault) => ({ type: typeOf(value.default), description: value.description })
  const properties = grouped(values).map(([name, members]) => {
    const [own] = members.filter((each) => each.name === name)
    const inner = members.map((each) => [each.name.slice(name.length + 1), leaf(each)])
    return [name, own === undefined ? object(Object.fromEntries(inner)) : leaf(own)]
  })
  // Helm passes `global` to every chart.
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    ...object({ global: { type: 'object' }, ...Object.fromEntries(properties) }),
  }
}

function typeOf(value: unknown): string {
  if (Array.isArray(value)) return 'array'
  return Number.isInteger(value) ? 'integer' : typeof value
}

function readme(values: readonly ValueWithDefault[]): string {
  const rows = values.map(
    ({ name, description, default: value }) => `| \`${name}\` | ${description} | \`${flow(value)}\` |`,
  )
  return `# virtset

Virtual machines on Kubernetes. The chart renders exactly what \`manifests/\` of the release does.

    helm install virtset oci://ghcr.io/virtset/charts/virtset --version VERSION

All objects are in the namespace \`virtset-system\`, regardless of the namespace of the release: admission policies
name the accounts in it. Install the release into that namespace only with \`--set namespace.create=false\`, after
creating it with the label \`pod-security.kubernetes.io/enforce: privileged\`.

| value | meaning | default |
|---|---|---|
${rows.join('\n')}
`
}
