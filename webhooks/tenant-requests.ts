import type { KubeClient } from '../runtime/kube.ts'
import { createLanes } from '../runtime/lanes.ts'
import type { AdmissionRequest } from './admission/request.ts'
import { tenantOf } from './subresources/tenant.ts'

/** For whom a request is sent to the API server, and how long its response is of use. */
export interface Requester {
  /** Tenants take turns, and within a tenant its users do. */
  readonly tenant: string
  readonly username?: string
  readonly signal?: AbortSignal
}

/** Requests to the API server that requests of tenants cause. */
export interface TenantRequests {
  /**
   * Rejects with the signal's reason if that aborts; a request that still waits is then never sent.
   * @param read as in KubeClient
   */
  request(requester: Requester, method: 'GET' | 'POST', path: string, body?: object, read?: false): Promise<unknown>
}

/** The client has more than twice as many connections: further ones would wait there, in the order of their arrival. */
const defaultLimits = { all: 8, perNamespace: 4 }

/**
 * One admission request can cause 64 requests to the API server. Tenants take turns for the connections of the client,
 * so these delay other tenants by a few requests only, however many wait.
 */
export function createTenantRequests(kube: Pick<KubeClient, 'request'>, limits = defaultLimits): TenantRequests {
  const lanes = createLanes(limits)
  return {
    request: ({ tenant, username, signal }, method, path, body, read) => {
      const options = { ...(signal === undefined ? {} : { signal }), ...(read === undefined ? {} : { read }) }
      const send = () => kube.request(method, path, body, options)
      return lanes.run(tenant, send, signal, username)
    },
  }
}

type Origin = Pick<AdmissionRequest, 'kind' | 'namespace' | 'user'>

/**
 * For whom an admission request counts, wherever tenants share something: for its namespace, in which the API server has
 * authorized it. A request without one counts for its user, as does one for a Namespace: its namespace is the name of
 * that Namespace, which its creator invents.
 */
export const tenantOfRequest = ({ kind, namespace, user }: Origin): string =>
  namespace === '' || kind === 'Namespace' ? userTenant(user) : `namespace ${namespace}`

export const requesterOf = (request: Origin, signal?: AbortSignal): Requester => ({
  tenant: tenantOfRequest(request),
  username: request.user.username,
  ...(signal === undefined ? {} : { signal }),
})

/** For a user who is not authorized for any namespace yet. */
export const userTenant = (user: Parameters<typeof tenantOf>[0]): string => `user ${tenantOf(user)}`
