import type { Duplex } from 'node:stream'
import type { KubeClient } from '../runtime/kube.ts'

/** What the command line touches of the world; `main.ts` has the real one. */
export interface World {
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  readonly stdin: AsyncIterable<unknown>
  readonly environment: { readonly [name: string]: string | undefined }
  /** Whether people read what is printed; and how wide their terminal is. */
  readonly isOutTerminal: boolean
  readonly isErrTerminal: boolean
  readonly columns: number
  /** Milliseconds, for measuring. */
  readonly now: () => number
  /** A cluster as kubectl would find it. */
  readonly cluster: (options: ClusterOptions) => Promise<Cluster>
  readonly dial: (socket: string) => Promise<Duplex>
  /** The paths of these files, or of manifests in these folders, that have changed since the call, until the user has had enough. */
  readonly changes: (paths: readonly string[]) => Promise<AsyncIterable<string>>
}

export interface ClusterOptions {
  readonly kubeconfig?: string
  readonly context?: string
}

export interface Cluster {
  readonly kube: KubeClient
  /** `https://10.0.0.1:6443`, for messages. */
  readonly server: string
  /** The namespace of the context. */
  readonly namespace?: string
}

export type Streams = Pick<World, 'out' | 'err'>
