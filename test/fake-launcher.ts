import { constants } from 'node:fs'
import { mkdir, open, rm, writeFile } from 'node:fs/promises'
import { createServer, type ServerResponse } from 'node:http'
import type { Server } from 'node:net'
import { once } from 'node:events'
import { join } from 'node:path'
import type { VirtualMachine } from '../api/virtual-machine.ts'
import type { DomainReport, LauncherErrorReason, VolumeRequest } from '../runtime/launcher-api.ts'

/** A fake launcher on its socket below a kubelet's root, with a guest controlled by the test. */
export interface FakeLauncher {
  /** Method and path of each request except reads; with the body of `PUT /capabilities`. */
  readonly asked: string[]
  /** The VM of the last `PUT /vm`. */
  accepted: VirtualMachine | undefined
  /** How often its state was read. */
  readonly reads: number
  /** Refuses `PUT /vm`. */
  refuse: { reason: LauncherErrorReason; message: string } | undefined
  /** Refuses `PUT /network`. */
  refusesNetwork: boolean
  /** Accepts the VM, but does not start it until `become` is called. */
  isSlow: boolean
  /** Responds to `PUT /vm` only when the guest runs, or with 422 if it cannot, as older launchers did. */
  isOld: boolean
  /** Accepts the VM, but reports that it is waiting for one. */
  isForgetful: boolean
  /** Reports another state each time it is read. */
  isFickle: boolean
  /** Ends each stream of events at once. */
  hangsUp: boolean
  /** Those that were requested last. */
  volumes: readonly VolumeRequest[] | undefined
  /** Changes the reported state, and sends an event. */
  become(change: Partial<DomainReport>): void
  /** Ends like a killed process: connections break, the socket file remains. */
  kill(): void
  close(): Promise<void>
}

/** Listens where the launcher of the pod would; returns the pod's directory. */
export async function listenAsLauncher(kubeletRoot: string, podUID: string, server: Server): Promise<string> {
  const pod = join(kubeletRoot, 'pods', podUID)
  const directory = join(pod, 'volumes/kubernetes.io~empty-dir/sockets')
  await mkdir(directory, { recursive: true })
  await writeFile(join(pod, 'etc-hosts'), '127.0.0.1\tlocalhost\n10.244.0.9\tpod\n')
  // By the directory's descriptor, because a socket's path can have at most 107 bytes.
  const handle = await open(directory, constants.O_DIRECTORY)
  server.listen(`/proc/self/fd/${handle.fd}/launcher.sock`)
  await once(server, 'listening')
  await handle.close()
  return pod
}

export async function startFakeLauncher(kubeletRoot: string, podUID: string): Promise<FakeLauncher> {
  const followers = new Set<ServerResponse>()
  /** Responses to `PUT /vm` that an older launcher sends when the guest runs. */
  const waiting: (() => void)[] = []
  let reads = 0
  let report: DomainReport = { vmUID: '', phase: 'Waiting', reason: '', observedAt: '2026-01-02T03:04:05Z' }

  const become = (change: Partial<DomainReport>) => {
    report = { ...report, ...change }
    for (const follower of followers) follower.write(line())
    for (const answer of waiting.splice(0)) answer()
  }

  const line = () => {
    const { domain: _, specDrift: __, ...summary } = report
    return `${JSON.stringify(launcher.isOld ? report : summary)}\n`
  }

  const accept = (uid: string, response: ServerResponse) => {
    const answer = () => response.writeHead(launcher.isOld ? 200 : 202).end(JSON.stringify({ domain: report }))
    if (launcher.isForgetful) return answer()
    if (report.vmUID === '') become({ vmUID: uid, phase: 'Defined', reason: 'starting' })
    if (launcher.isOld) waiting.push(answer)
    else answer()
    if (!launcher.isSlow)
      setImmediate(() => report.phase === 'Defined' && become({ phase: 'Running', reason: 'booted' }))
  }

  const server = createServer((request, response) => {
    let body = ''
    request.on('data', (chunk) => (body += chunk))
    request.on('end', () => {
      if (request.url === '/domain') {
        reads++
        if (launcher.isFickle && report.vmUID !== '') report = { ...report, phase: 'Paused', message: String(reads) }
      }
      const shown = request.url === '/capabilities' ? ` ${body}` : ''
      if (request.method !== 'GET') launcher.asked.push(`${request.method} ${request.url}${shown}`)
      if (request.url === '/events') {
        followers.add(response)
        response.on('close', () => followers.delete(response))
        response.write(line())
        if (launcher.hangsUp) response.end()
      } else if (request.url === '/network' && launcher.refusesNetwork) {
        response.writeHead(409).end(JSON.stringify({ error: { reason: 'NotReady', message: 'not now' } }))
      } else if (request.url === '/vm' && launcher.refuse !== undefined) {
        response.writeHead(422).end(JSON.stringify({ error: launcher.refuse }))
      } else if (request.url === '/vm') {
        launcher.accepted = JSON.parse(body)
        accept(launcher.accepted?.metadata.uid ?? '', response)
      } else {
        if (request.url === '/shutdown') {
          const { gracePeriodSeconds } = JSON.parse(body)
          const deadline = new Date(Date.now() + gracePeriodSeconds * 1000).toISOString()
          become({ phase: 'ShuttingDown', deadline, gracePeriodSeconds })
          if (gracePeriodSeconds === 0) become({ phase: 'Shutoff', reason: 'destroyed', exit: 'Failed' })
        }
        if (request.url === '/volumes') {
          launcher.volumes = JSON.parse(body).volumes as VolumeRequest[]
          become({ volumes: launcher.volumes.map((one) => ({ ...one, phase: 'Attached' })) })
        }
        if (request.url === '/freeze') become({ frozen: { id: JSON.parse(body).id, state: 'Frozen' } })
        if (request.url === '/thaw') become({ frozen: { id: JSON.parse(body).id, state: 'Thawed' } })
        response.end(JSON.stringify(report))
      }
    })
  })

  const launcher: FakeLauncher = {
    asked: [],
    accepted: undefined,
    volumes: undefined,
    get reads() {
      return reads
    },
    refuse: undefined,
    refusesNetwork: false,
    isSlow: false,
    isOld: false,
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

  const pod = await listenAsLauncher(kubeletRoot, podUID, server)
  return launcher
}
