import { networkRef, usedTaps } from '../../api/tap.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { isNotFound } from '../../runtime/api-error.ts'
import type { Clock } from '../../runtime/clock.ts'
import { requesterOf, type TenantRequests } from '../tenant-requests.ts'
import type { AdmissionRequest } from './request.ts'

/** Admission waits at most that long to warn. */
const waitMs = 1000
/** A VM with more networks is warned of the first ones. */
const maxNetworks = 4

/** Warnings about networks of a VM that do not exist; undefined if it has none. Never rejects. */
export type NetworkWarnings = (
  vm: VirtualMachine,
  request: Pick<AdmissionRequest, 'kind' | 'namespace' | 'user'>,
  signal?: AbortSignal,
) => Promise<readonly string[]> | undefined

/**
 * Warns of NetworkAttachmentDefinitions that do not exist: Multus lets the pod wait for them. Only these VMs need the
 * request, so nothing is cached. Users choose the size of a definition, so it is not parsed. Where the webhooks may not
 * read them, there are no warnings.
 */
export function createNetworkWarnings(client: TenantRequests, clock: Clock): NetworkWarnings {
  return ({ spec }, request, signal) => {
    const used = new Set(usedTaps(spec).map(({ dev }) => dev))
    const asked = (spec.taps ?? []).flatMap(({ dev, network }, index) => {
      if (network === undefined || !used.has(dev)) return []
      const { namespace, name } = networkRef(network, request.namespace)
      const path = `/apis/k8s.cni.cncf.io/v1/namespaces/${namespace}/network-attachment-definitions/${name}`
      const what = `there is no NetworkAttachmentDefinition ${name} in the namespace ${namespace}`
      return [{ path, warning: `spec.taps[${index}].network: ${what}; the VM waits until it exists` }]
    })
    if (asked.length === 0) return undefined
    const paths = [...new Set(asked.map(({ path }) => path))].slice(0, maxNetworks)
    const late = new AbortController()
    const cancel = clock.after(waitMs, () => late.abort())
    const requester = requesterOf(request, signal === undefined ? late.signal : AbortSignal.any([signal, late.signal]))
    const isMissing = (path: string): Promise<boolean> =>
      client.request(requester, 'GET', path, undefined, false).then(() => false, isNotFound)
    return Promise.all(paths.map(isMissing))
      .finally(cancel)
      .then((missing) =>
        asked.filter(({ path }) => missing[paths.indexOf(path)] === true).map(({ warning }) => warning),
      )
  }
}
