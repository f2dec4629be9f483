import { networkRef, usedTaps } from '../../api/tap.ts'
import type { VirtualMachine } from '../../api/virtual-machine.ts'
import { isNotFound } from '../../runtime/api-error.ts'
import type { Clock } from '../../runtime/clock.ts'
import { inTime } from '../deadline.ts'

/** Admission waits at most that long to warn. */
const waitMs = 1000

/** Warnings about networks of a VM that do not exist; undefined if it has none. Never rejects. */
export type NetworkWarnings = (vm: VirtualMachine, namespace: string) => Promise<readonly string[]> | undefined

/**
 * Warns of NetworkAttachmentDefinitions that do not exist: Multus lets the pod wait for them. Only these VMs need the
 * request, so nothing is cached. Where the webhooks may not read them, there are no warnings.
 */
export function createNetworkWarnings(
  kube: { request(method: 'GET', path: string): Promise<unknown> },
  clock: Clock,
): NetworkWarnings {
  const warningOf = async (index: number, network: string, ofVm: string): Promise<string[]> => {
    const { namespace, name } = networkRef(network, ofVm)
    const path = `/apis/k8s.cni.cncf.io/v1/namespaces/${namespace}/network-attachment-definitions/${name}`
    try {
      await inTime(kube.request('GET', path), waitMs, clock)
      return []
    } catch (error) {
      if (!isNotFound(error)) return []
      const what = `there is no NetworkAttachmentDefinition ${name} in the namespace ${namespace}`
      return [`spec.taps[${index}].network: ${what}; the VM waits until it exists`]
    }
  }
  return ({ spec }, ofVm) => {
    const used = new Set(usedTaps(spec).map(({ dev }) => dev))
    const looked = (spec.taps ?? []).flatMap(({ dev, network }, index) =>
      network === undefined || !used.has(dev) ? [] : [warningOf(index, network, ofVm)],
    )
    return looked.length === 0 ? undefined : Promise.all(looked).then((warnings) => warnings.flat())
  }
}
