import { isIP } from 'node:net'
import { openPodHosts } from './socket.ts'

/** The kubelet writes a few hundred bytes. What follows is of the pod, and must not take time in each round. */
const maxBytes = 4096
/** As a pod has. */
const mostAddresses = 2

/**
 * The pod's addresses, one of each family, from the hosts file that the kubelet wrote for it; none before the pod's
 * network is set up. Read here rather than from the API, so that the handler does not need the permission to read the
 * cluster's pods. Who runs a container as root in the pod can forge them: they are shown in the status, and with them a
 * plugin finds the pod's interface in the pod's own network. They grant nothing.
 */
export async function readPodAddresses(kubeletRoot: string, podUID: string): Promise<string[]> {
  const handle = await openPodHosts(kubeletRoot, podUID)
  if (handle === undefined) return []
  try {
    const { bytesRead, buffer } = await handle.read(Buffer.alloc(maxBytes), 0, maxBytes, 0)
    return parsePodAddresses(buffer.toString('utf8', 0, bytesRead))
  } finally {
    await handle.close()
  }
}

/**
 * The pod's own line follows loopback and IPv6's fixed names, which are the same in every pod. No pod has an address with
 * a zone, which could have any length.
 */
export function parsePodAddresses(hosts: string): string[] {
  return hosts
    .split('\n')
    .map((line) => line.split('\t')[0]?.trim() ?? '')
    .filter((address) => isIP(address) !== 0 && !address.includes('%') && !/^(127\.|::1$|f[ef]00:)/i.test(address))
    .slice(0, mostAddresses)
}
