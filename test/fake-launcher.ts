import { constants } from 'node:fs'
import { mkdir, open, rm, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import { once } from 'node:events'
import { join } from 'node:path'
import type { DomainReport, LauncherErrorReason } from '../runtime/launcher-api.ts'

/** A launcher on its socket below a kubelet's root, with a guest that does as the test says. */
export interface FakeLauncher {
  /** Method and path of each request but those that only read. */
  readonly asked: string[]
  /** How often it was asked how it stands. */
  readonly reads: number
  /** Answers `PUT /vm` with a refusal. */
  refuse: { reason: LauncherErrorReason; message: string } | undefined
  /** Takes the VM, and says that it waits for one. */
  isForgetful: boolean
  /** Says something else each time it is asked how it stands. */
  isFickle: boolean
  /** Ends each stream of events at once. */
  hangsUp: boolean
  /** Changes what it reports, and tells whoever follows. */
  become(change: Partial<DomainReport>): void
  /** Ends as a killed process does: connections break, the socket file stays. */
  kill(): void
  close(): Promise<void>
}

export async function startFakeLauncher(kubeletRoot: string, podUID: string): Promise<FakeLauncher> {
  const pod = join(kubeletRoot, 'pods', podUID)
  const directory = join(pod, 'volumes/kubernetes.io~empty-dir/sockets')
  await mkdir(directory, { recursive: true })
  await writeFile(join(pod, 'etc-hosts'), '127.0.0.1\tlocalhost\n10.244.0.9\tpod\n')
  const followers = new Set<ServerResponse>()
  let reads = 0
  let report: DomainReport = { vmUID: '', phase: 'Waiting', reason: '', observedAt: '2026-01-02T03:04:05Z' }

  const become = (change: Partial<DomainReport>) => {
    report = { ...report, ...change }
    for (const follower of followers) follower.write(`${JSON.stringify(report)}\n`)
  }

  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      if (request.url === '/domain') {
        reads++
        if (launcher.isFickle) report = { ...report, phase: 'Paused', message: String(reads) }
      }
      if (request.method !== 'GET') launcher.asked.push(`${request.method} ${request.url}`)
      if (request.url === '/events') {
        followers.add(response)
        response.on('close', () => followers.delete(response))
        response.write(`${JSON.stringify(report)}\n`)
        if (launcher.hangsUp) response.end()
      } else if (request.url === '/vm' && launcher.refuse !== undefined) {
        response.writeHead(422).end(JSON.stringify({ error: launcher.refuse }))
      } else {
        if (request.url === '/vm' && !launcher.isForgetful)
          become({ vmUID: JSON.parse(body).metadata.uid, phase: 'Running', reason: 'booted' })
        if (request.url === '/shutdown') {
          const deadline = new Date(Date.now() + JSON.parse(body).gracePeriodSeconds * 1000).toISOString()
          become({ phase: 'ShuttingDown', deadline })
        }
        if (request.url === '/destroy') become({ phase: 'Gone', reason: 'destroyed', exit: 'Succeeded' })
        response.end(JSON.stringify(request.url === '/vm' ? { domain: report } : report))
      }
    })
  })

  const launcher: FakeLauncher = {
    asked: [],
    get reads() {
      return reads
    },
    refuse: undefined,
    isForgetful: false,
    isFickle: false,
    hangsUp: false,
    become,
    kill: () => {
      server.close()
      server.closeAllConnections()
    },
    async close() {
      launcher.kill()
      await rm(pod, { recursive: true, force: true })
    },
  }

  // By the directory's descriptor: a socket's path may have 107 bytes at most.
  const handle = await open(directory, constants.O_DIRECTORY)
  server.listen(`/proc/self/fd/${handle.fd}/launcher.sock`)
  await once(server, 'listening')
  await handle.close()
  return launcher
}
