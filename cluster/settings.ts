import { join } from 'node:path'

/** Where things are kept and how much of them there is. Everything that varies between machines and users. */
export interface Settings {
  /** The checkout, absolute. */
  readonly checkout: string
  /** What is expensive to make and good for every checkout: binaries, images, root file systems, logs of steps. */
  readonly cache: string
  /** What the running cluster owns: data, certificates, logs, records of processes. `make down` removes it. */
  readonly state: string
  /** The user's own Kubernetes binaries, or undefined: then they are found in the cache or built. */
  readonly kubeBinDir: string | undefined
  /** How many nodes the cluster has: 1 or 2. */
  readonly nodes: number
  /** Base image of the Containerfiles, or undefined: then a registry is asked, or mmdebstrap makes one. */
  readonly base: string | undefined
  /** Where `make install` pushes images to, and the KUBECONFIG that names the user's own cluster. */
  readonly imagePrefix: string | undefined
  readonly kubeconfig: string | undefined
}

/** The longest socket below the state directory (see node.ts), and Linux' limit for a socket's path. */
const longestSocket = '/nodes/node1/run/containerd.sock.ttrpc'
const maxSocketPath = 107

/** Reads the environment. A value that cannot work is thrown as a sentence that says what to set instead. */
export function readSettings(checkout: string, environment: Readonly<Record<string, string | undefined>>): Settings {
  const home = environment['HOME'] || '/root'
  const cache = join(environment['XDG_CACHE_HOME'] || join(home, '.cache'), 'virtset')
  const state = environment['VIRTSET_STATE'] || join(cache, 'state')
  const nodes = environment['NODES'] || '1'
  if (nodes !== '1' && nodes !== '2') throw new Error(`NODES=${nodes}: one machine can carry 1 or 2 nodes`)
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
