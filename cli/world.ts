import type { Duplex } from 'node:stream'
import type { Access } from '../runtime/access.ts'
import type { KubeClient } from '../runtime/kube.ts'
import type { Attachment, Receiver } from './attachment.ts'
import type { Page } from './page.ts'
import type { Terminal } from './terminal.ts'

/** The environment of the command line; `main.ts` creates the real one. */
export interface World {
  /** The name under which kubectl runs the program: `kubectl vm` or `kubectl preset`. */
  readonly plugin: 'vm' | 'preset'
  readonly out: (text: string) => void
  readonly err: (text: string) => void
  /** From now on, output that cannot be written is dropped, and does not end the program. */
  readonly goOn: () => void
  /**
   * Begins the escape sequences in what this program prints. The streams replace it with ESC, and show an ESC in other
   * people's text as `\u001b`.
   */
  readonly escape: string
  readonly stdin: AsyncIterable<unknown>
  readonly environment: { readonly [name: string]: string | undefined }
  /** Whether the streams are terminals, and the width of standard output. */
  readonly isOutTerminal: boolean
  readonly isErrTerminal: boolean
  readonly columns: number
  /** Milliseconds, for measuring. */
  readonly now: () => number
  /** The cluster that kubectl would use. */
  readonly cluster: (options: ClusterOptions) => Promise<Cluster>
  /** Standard input and output as bytes. */
  readonly terminal: () => Promise<Terminal>
  /** Standard input and output as one stream. */
  readonly stdio: () => Promise<Duplex>
  /** Accepts local connections until it is closed. Throws Usage. */
  readonly listen: (
    at: ListenAddress,
    onConnection: (connection: Duplex) => void,
  ) => Promise<{ readonly address: string; close(): void }>
  /** Runs a program with the streams of this one; resolves with its exit code. Throws Usage if it is not installed. */
  readonly spawn: (program: string, words: readonly string[]) => Promise<number>
  /** The words that run this program. */
  readonly self: readonly string[]
  /** The files of the web page, by their paths. */
  readonly page: () => Promise<Page>
  /** Resolves when the user ends the program. */
  readonly interrupted: () => Promise<void>
  readonly dial: (socket: string) => Promise<Duplex>
  /** The paths of these files, or of manifests in these directories, that change after the call. */
  readonly changes: (paths: readonly string[]) => Promise<AsyncIterable<string>>
}

/** Port 0 is any free port. */
export type ListenAddress = { readonly host: string; readonly port: number } | { readonly path: string }

export interface ClusterOptions {
  readonly kubeconfig?: string
  readonly context?: string
}

export interface Cluster {
  readonly kube: KubeClient
  /** For requests that are passed on as they are. */
  readonly access: Access
  /** `https://10.0.0.1:6443`, perhaps with a path; for messages. */
  readonly server: string
  /** Opens a WebSocket; `stream` reads a response that goes on. Both throw ApiError and ApiUnreachable. */
  attach(path: string, receiver: Receiver): Promise<Attachment>
  stream(path: string, receiver: Receiver): Promise<{ readonly ended: Promise<boolean> }>
  /** The namespace of the context. */
  readonly namespace?: string
}

export type Streams = Pick<World, 'out' | 'err'>
