import { join } from 'node:path'

/** Everything that varies between hosts and users. */
export interface Settings {
  /** The checkout, absolute. */
  readonly checkout: string
  /** Expensive to build and shared by all checkouts: binaries, images, root file systems, logs of steps. */
  readonly cache: string
  /** State of the running cluster: data, certificates, logs, records of processes. `make down` removes it. */
  readonly state: string
  /** The user's Kubernetes binaries; if undefined, they come from the cache or are built. */
  readonly kubeBinDir: string | undefined
  /** The number of nodes of the cluster: 1 to 3. */
  readonly nodes: number
  /** Base image of the Containerfiles; if undefined, it comes from a registry or is built by mmdebstrap. */
  readonly base: string | undefined
  /** The registry that `make install` pushes images to, and the KUBECONFIG of the user's cluster. */
  readonly imagePrefix: string | undefined
  readonly kubeconfig: string | undefined
}

/** The longest socket path below the state directory (see node.ts), and Linux's limit for a socket path. */
const longestSocket = '/nodes/node1/run/containerd.sock.ttrpc'
const maxSocketPath = 107

/** Reads the environment. @throws an error that states the valid values if a value is invalid */
export function readSettings(checkout: string, environment: Readonly<Record<string, string | undefined>>): Settings {
  const home = environment['HOME'] || '/root'
  const cache = join(environment['XDG_CACHE_HOME'] || join(home, '.cache'), 'virtset')
  const state = environment['VIRTSET_STATE'] || join(cache, 'state')
  const nodes = environment['NODES'] || '1'
  if (!/^[1-3]$/.test(nodes)) throw new Error(`NODES=${nodes}: must be 1 to 3`)
  if (state.length + longestSocket.length > maxSocketPath)
    throw new Error(`${state} is too long for the path of a unix socket: set VIRTSET_STATE to a shorter directory`)
  return {
    checkout,
    cache,
    state,
    kubeBinDir: environment['KUBE_BIN_DIR'] || undefined,
    nodes: Number(nodes),
    base: environment['BASE'] || undefined,
    imagePrefix: environment['IMAGE_PREFIX'] || undefined,
    kubeconfig: environment['KUBECONFIG'] || undefined,
  }
}
