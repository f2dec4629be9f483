import { systemClock } from './clock.ts'
import type { Clock } from './clock.ts'
import type { KubeClient } from './kube.ts'
import { createLanes } from './lanes.ts'
import { withRetries } from './retry.ts'

/** One namespace never has all connections. */
const shareOfNamespace = 0.75

/**
 * The same client, with turns between namespaces: without them, requests beyond the number of connections wait in the
 * order of their arrival, so a namespace with many slow ones delays all others. Requests for cluster-scoped objects, and
 * those of no known namespace, count as one namespace.
 *
 * Watches, and lists of all namespaces, as caches have them, do not wait: no tenant causes them. Closing it closes the
 * client.
 *
 * A request that waits for Retry-After gives up its turn, because the webhook of a tenant can cause that response. If the
 * API server itself is overloaded, few requests wait: the controller has hardly more workers than connections.
 *
 * @param kube a client without `retries`
 * @param connections half of those of the client: requests that are late do not count
 */
export function fairClient(kube: KubeClient, connections: number, clock: Clock = systemClock): KubeClient {
  const lanes = createLanes({ all: connections, perNamespace: Math.ceil(connections * shareOfNamespace) }, clock)
  const enter = <T>(
    { namespace = '' }: { readonly namespace?: string },
    signal: AbortSignal | undefined,
    send: () => Promise<T>,
  ): Promise<T> => withRetries(() => lanes.run(namespace, send, signal), clock, signal)
  const nowhere = {}
  return {
    get: (of, ref, options) => enter(ref, options?.signal, () => kube.get(of, ref, options)),
    list: (of, options = {}) => enter(options, options.signal, () => kube.list(of, options)),
    listEach: (of, options, take) =>
      options.namespace === undefined
        ? withRetries(() => kube.listEach(of, options, take), clock, options.signal)
        : enter(options, options.signal, () => kube.listEach(of, options, take)),
    create: (of, object, options) => enter(object.metadata, options?.signal, () => kube.create(of, object, options)),
    createUnread: (of, object, options) =>
      enter(object.metadata, options?.signal, () => kube.createUnread(of, object, options)),
    update: (of, object, options) => enter(object.metadata, options?.signal, () => kube.update(of, object, options)),
    patch: (of, ref, patch, options) => enter(ref, options?.signal, () => kube.patch(of, ref, patch, options)),
    delete: (of, ref, options) => enter(ref, options?.signal, () => kube.delete(of, ref, options)),
    watch: (of, options) => kube.watch(of, options),
    request: (method, path, body, options) =>
      enter(nowhere, options?.signal, () => kube.request(method, path, body, options)),
    close: () => kube.close(),
  }
}
