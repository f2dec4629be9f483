import type { KubeClient } from '../runtime/kube.ts'

/**
 * The same client, which refuses to send a write while this process does not lead. A check before the work is not
 * enough: a request can wait behind others, or for Retry-After, until another process leads.
 *
 * It belongs directly around the client that sends, so that each attempt is checked, and not only the first one.
 * Closing it closes the client.
 *
 * @param kube a client without `retries`
 */
export function leadingClient(kube: KubeClient, isLeader: () => boolean): KubeClient {
  const assertLeading = (write: string) => {
    if (!isLeader()) throw new Error(`no longer leading: ${write} is not sent`)
  }
  return {
    get: (of, ref, options) => kube.get(of, ref, options),
    list: (of, options) => kube.list(of, options),
    listEach: (of, options, take) => kube.listEach(of, options, take),
    async create(of, object, options) {
      assertLeading(`POST ${of.plural}`)
      return kube.create(of, object, options)
    },
    async createUnread(of, object, options) {
      assertLeading(`POST ${of.plural}`)
      return kube.createUnread(of, object, options)
    },
    async update(of, object, options) {
      assertLeading(`PUT ${of.plural}`)
      return kube.update(of, object, options)
    },
    async patch(of, ref, patch, options) {
      assertLeading(`PATCH ${of.plural}`)
      return kube.patch(of, ref, patch, options)
    },
    async delete(of, ref, options) {
      assertLeading(`DELETE ${of.plural}`)
      return kube.delete(of, ref, options)
    },
    watch: (of, options) => kube.watch(of, options),
    async request(method, path, body, options) {
      if (method !== 'GET') assertLeading(`${method} ${path}`)
      return kube.request(method, path, body, options)
    },
    close: () => kube.close(),
  }
}
