/** The group of the aggregated API. */
export const group = 'subresources.virtset.io'
const version = 'v1alpha1'

export const groupVersion = `${group}/${version}`

/** One for each sub-resource of `virtualmachineconfigs`; the kind is what is answered. */
const resource = (verb: string, kind: string) => ({
  name: `virtualmachineconfigs/${verb}`,
  singularName: '',
  namespaced: true,
  ...(kind === 'VirtualMachine' ? { group: 'virtset.io' } : { group: '' }),
  ...(kind === 'VirtualMachine' ? { version } : { version: 'v1' }),
  kind,
  verbs: ['get', 'create', 'update'],
})

const discovered = { groupVersion, version }

/**
 * What may be read here, by path. No resource can be listed, so that nothing of ours has to be asked when a namespace is deleted. The two OpenAPI documents say
 * nothing, in form: the aggregator asks for them and logs an error each minute where there are none.
 */
export const documents: ReadonlyMap<string, object> = new Map<string, object>([
  [
    `/apis/${groupVersion}`,
    {
      kind: 'APIResourceList',
      apiVersion: 'v1',
      groupVersion,
      resources: [resource('start', 'VirtualMachine'), resource('stop', 'Status'), resource('restart', 'Status')],
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
