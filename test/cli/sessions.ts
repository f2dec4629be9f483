import { duplexPair, type Duplex } from 'node:stream'
import type { Attachment, Closed, Receiver } from '../../cli/attachment.ts'
import type { Cluster } from '../../cli/world.ts'
import { noSessions } from './world.ts'
import { ApiError } from '../../runtime/api-error.ts'
import type { KubeClient } from '../../runtime/kube.ts'

export const refusal = (code: number, reason: string, message: string) => new ApiError('GET', { code, reason, message })

/** A session that was opened: the guest's end, and how it is closed. */
export interface OpenedSession {
  readonly path: string
  readonly guest: Duplex
  close(closed: Closed): void
}

/** A cluster whose sessions end in streams of the test. */
export function sessionCluster(
  given: { readonly phase?: string; readonly refuse?: () => ApiError | undefined; readonly picture?: Buffer } = {},
): { readonly cluster: Cluster; readonly sessions: OpenedSession[] } {
  const sessions: OpenedSession[] = []
  const refuse = () => {
    const refused = given.refuse?.()
    if (refused !== undefined) throw refused
  }
  const kube: Pick<KubeClient, 'get' | 'close'> = {
    get: async ({ kind }) => {
      if (given.phase === undefined) throw refusal(404, 'NotFound', `${kind} "web" not found`)
      return { status: { phase: given.phase } } as never
    },
    close: async () => {},
  }
  const attach = async (path: string, receiver: Receiver): Promise<Attachment> => {
    refuse()
    const [ours, guest] = duplexPair()
    const closed = Promise.withResolvers<Closed>()
    receiver.begin(undefined)
    ours.on('data', (chunk: Buffer) => {
      const blocked = receiver.receive(chunk)
      if (blocked === undefined) return
      ours.pause()
      void blocked.then(() => ours.resume())
    })
    sessions.push({ path, guest, close: closed.resolve })
    return {
      send: (chunk) => {
        if (ours.write(chunk)) return undefined
        return new Promise((resolve) => ours.once('drain', resolve))
      },
      close: () => closed.resolve({ code: 1005, reason: '' }),
      closed: closed.promise,
    }
  }
  const stream = async (_: string, receiver: Receiver) => {
    refuse()
    receiver.begin(undefined)
    await receiver.receive(given.picture ?? Buffer.alloc(0))
    return { ended: Promise.resolve(true) }
  }
  return {
    cluster: { ...noSessions, kube: kube as KubeClient, server: 'https://cluster', namespace: 'team', attach, stream },
    sessions,
  }
}
