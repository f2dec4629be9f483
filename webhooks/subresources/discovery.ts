/** The group of the aggregated API. */
export const group = 'subresources.virtset.io'
const version = 'v1alpha1'

export const groupVersion = `${group}/${version}`

/** A subresource of `virtualmachineconfigs`; `kind` is that of the response. */
const resource = (verb: string, kind: string) => ({
  name: `virtualmachineconfigs/${verb}`,
  singularName: '',
  namespaced: true,
  ...(kind === 'VirtualMachine' ? { group: 'virtset.io' } : { group: '' }),
  ...(kind === 'VirtualMachine' ? { version } : { version: 'v1' }),
  kind,
  verbs: ['get', 'create', 'update'],
})

/**
 * A session with the guest of a VM, or of the VM of a config. The API server takes requests for these names, except
 * `screenshot` and `metrics`, for long-running, so an open session occupies no place of its Priority and Fairness and
 * has no time limit.
 */
const session = (plural: string) => (name: string) => ({
  name: `${plural}/${name}`,
  singularName: '',
  namespaced: true,
  group: '',
  version: 'v1',
  kind: 'Status',
  verbs: ['get'],
})

const sessions = ['attach', 'log', 'portforward', 'screenshot', 'metrics']

const discovered = { groupVersion, version }

/**
 * The discovery documents, by path. No resource has the verb `list`, so deleting a namespace does not depend on this
 * API. The two OpenAPI documents are empty; without them the aggregator logs an error every minute.
 */
export const documents: ReadonlyMap<string, object> = new Map<string, object>([
  [
    `/apis/${groupVersion}`,
    {
      kind: 'APIResourceList',
      apiVersion: 'v1',
      groupVersion,
      resources: [
        resource('start', 'VirtualMachine'),
        resource('stop', 'Status'),
        resource('restart', 'Status'),
        ...sessions.map(session('virtualmachines')),
        ...sessions.map(session('virtualmachineconfigs')),
      ],
    },
  ],
  [
    `/apis/${group}`,
    { kind: 'APIGroup', apiVersion: 'v1', name: group, versions: [discovered], preferredVersion: discovered },
  ],
  ['/openapi/v2', { swagger: '2.0', info: { title: 'virtset', version }, paths: {} }],
  [
    '/openapi/v3',
    { paths: { [`apis/${groupVersion}`]: { serverRelativeURL: `/openapi/v3/apis/${groupVersion}?hash=${version}` } } },
  ],
  [`/openapi/v3/apis/${groupVersion}`, { openapi: '3.0.0', info: { title: 'virtset', version }, paths: {} }],
])
