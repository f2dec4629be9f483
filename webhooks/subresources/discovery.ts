import { discoveryOf, version } from '../discovery.ts'

/** The group of the users' subresources. */
export const group = 'subresources.virtset.io'

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

/**
 * The discovery documents, by path. No resource has the verb `list`, so deleting a namespace does not depend on this
 * API.
 */
export const documents: ReadonlyMap<string, object> = discoveryOf(group, [
  resource('start', 'VirtualMachine'),
  resource('stop', 'Status'),
  resource('restart', 'Status'),
  ...sessions.map(session('virtualmachines')),
  ...sessions.map(session('virtualmachineconfigs')),
])
