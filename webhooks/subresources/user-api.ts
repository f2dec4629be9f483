import { discoveryOf, version } from '../discovery.ts'

/** What starts and ends the VM of a config. */
export const powerVerbs = ['start', 'stop', 'restart'] as const
export type PowerVerb = (typeof powerVerbs)[number]

/** An aggregated API of users. */
export interface UserApi {
  readonly group: string
  /** Subresources of `virtualmachineconfigs`. */
  readonly power: readonly PowerVerb[]
  /** Paths below a VM, or a config, of sessions with the guest, as messages name them. */
  readonly sessions: readonly string[]
  /**
   * The discovery documents, by path. No resource has the verb `list`, so deleting a namespace does not depend on the
   * API.
   */
  readonly documents: ReadonlyMap<string, object>
}

/** A subresource of `virtualmachineconfigs`; `kind` is that of the response. */
const power = (verb: PowerVerb) => ({
  name: `virtualmachineconfigs/${verb}`,
  singularName: '',
  namespaced: true,
  ...(verb === 'start'
    ? { group: 'virtset.io', version, kind: 'VirtualMachine' }
    : { group: '', version: 'v1', kind: 'Status' }),
  verbs: ['get', 'create', 'update'],
})

/** A session with the guest of a VM, or of the VM of a config. */
const session = (plural: string) => (name: string) => ({
  name: `${plural}/${name}`,
  singularName: '',
  namespaced: true,
  group: '',
  version: 'v1',
  kind: 'Status',
  verbs: ['get'],
})

/** The word that RBAC and the API server know a session by. */
export const firstWord = (path: string): string => path.split('/', 1)[0] ?? ''

const userApi = ({ group, power: verbs, sessions }: Omit<UserApi, 'documents'>): UserApi => {
  const words = [...new Set(sessions.map(firstWord))]
  const resources = [
    ...verbs.map(power),
    ...['virtualmachines', 'virtualmachineconfigs'].flatMap((plural) => words.map(session(plural))),
  ]
  return { group, power: verbs, sessions, documents: discoveryOf(group, resources) }
}

/** Requests that are answered at once. The API server's Priority and Fairness limits those of each user. */
export const subresourcesApi = userApi({
  group: 'subresources.virtset.io',
  power: powerVerbs,
  sessions: ['screenshot', 'metrics'],
})

/**
 * Sessions that last. The API server takes requests for these names for long-running, so an open session occupies no
 * place of its Priority and Fairness and has no time limit. Nothing limits how many a user requests.
 */
export const sessionsApi = userApi({
  group: 'sessions.virtset.io',
  power: [],
  sessions: ['attach/console', 'attach/vnc', 'portforward/PORT', 'log'],
})
