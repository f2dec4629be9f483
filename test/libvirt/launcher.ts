import { request } from 'node:http'
import { mkdir } from 'node:fs/promises'
import { connect, type Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { type DomainReport, launcherSocketName, parseDomainReport, parseJson } from '../../runtime/launcher-api.ts'
import { confine, libvirtRootfs, makeOwned, makeRunDirectory } from './rootfs.ts'
import { until } from './until.ts'

export interface Answer {
  readonly status: number
  readonly body: unknown
}

/** A launcher in its "pod": a chroot with PID 1, the launcher, libvirtd and QEMU. */
export interface RunningLauncher {
  readonly socket: string
  /** Paths under which the pod has its volumes, as the test reaches them. */
  readonly volumes: string
  readonly blocks: string
  ask(method: string, path: string, body?: unknown): Promise<Answer>
  report(): Promise<DomainReport>
  /** Waits until the report is as wanted. */
  reported(what: string, isWanted: (report: DomainReport) => boolean): Promise<DomainReport>
  /** The socket after `GET /console` was upgraded, or the status it was refused with. */
  console(): Promise<Socket>
  pids(command: string): Promise<number[]>
  signal(command: string, signal: NodeJS.Signals): Promise<void>
  /** The exit code of the "pod". */
  readonly exitCode: Promise<number>
  log(): string
  stop(): Promise<void>
}

/** Ready after 0.5 s; see `startLibvirtd` for the rest. */
export async function startLauncher(): Promise<RunningLauncher> {
  const rootfs = libvirtRootfs()
  const directory = await makeRunDirectory(rootfs)
  const inside = (name: string) => join(directory.inside, name)
  const outside = (name: string) => join(directory.outside, name)
  await mkdir(outside('project'))
  for (const name of ['private', 'sockets', 'volumes', 'block']) await makeOwned(outside(name))
  const node = `${inside('project')}/node_modules/node/bin/node`
  const pod = confine({
    rootfs,
    directory,
    // As in the image: tini is PID 1, the launcher its child.
    script: `cd ${inside('project')} && exec tini -- ${node} --max-old-space-size=64 --max-semi-space-size=1 launcher/main.ts`,
    env: {
      VIRTSET_RUN_DIR: inside('private'),
      VIRTSET_SOCKET_DIR: inside('sockets'),
      VIRTSET_VOLUMES_DIR: inside('volumes'),
      VIRTSET_BLOCK_DIR: inside('block'),
    },
    binds: { [inside('project')]: resolve(import.meta.dirname, '../..') },
  })
  const log: string[] = []
  pod.process.stdout?.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  pod.process.stderr?.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  const exitCode = new Promise<number>((done) => {
    pod.process.once('exit', (code, signal) => done(code ?? (signal === null ? -1 : 128)))
  })
  const socket = outside(`sockets/${launcherSocketName}`)
  const ask = (method: string, path: string, body?: unknown) => send(socket, method, path, body)
  const report = async () => parseDomainReport((await ask('GET', '/domain')).body)
  const launcher: RunningLauncher = {
    socket,
    volumes: outside('volumes'),
    blocks: outside('block'),
    ask,
    report,
    reported: (what, isWanted) =>
      until(what, async () => {
        const now = await report()
        return isWanted(now) && now
      }),
    console: () => upgrade(socket),
    pids: (command) => pod.pids(command),
    signal: async (command, signal) => {
      for (const pid of await pod.pids(command)) process.kill(pid, signal)
    },
    exitCode,
    log: () => log.join(''),
    stop: () => pod.stop(),
  }
  try {
    await until('the launcher answers', async () => (await ask('GET', '/domain')).status === 200)
  } catch (error) {
    await pod.stop()
    throw new Error(`the launcher said: ${log.join('')}`, { cause: error })
  }
  return launcher
}

function send(socketPath: string, method: string, path: string, body?: unknown): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const asked = request({ socketPath, method, path }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk: Buffer) => chunks.push(chunk))
      response.on('error', reject)
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, body: parseJson(Buffer.concat(chunks).toString()) }),
      )
    })
    asked.on('error', reject)
    asked.end(body === undefined ? undefined : JSON.stringify(body))
  })
}

function upgrade(socketPath: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const headers = { connection: 'Upgrade', upgrade: 'console' }
    const asked = request({ socketPath, method: 'GET', path: '/console', headers })
    asked.on('upgrade', (_, socket, head) => {
      socket.unshift(head)
      resolve(socket)
    })
    asked.on('response', (response) => reject(new Error(`refused with ${response.statusCode}`)))
    asked.on('error', reject)
    asked.end()
  })
}

/** Whether anybody listens on a unix socket. */
export function isListening(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => resolve(true))
    socket.once('error', () => resolve(false))
    socket.on('connect', () => socket.destroy())
  })
}
