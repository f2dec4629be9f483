import { setTimeout as sleep } from 'node:timers/promises'
import { mkdir, open, readFile } from 'node:fs/promises'
import type { Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { readCapabilities } from '../../launcher/capabilities-cache.ts'
import {
  type CapabilitiesCache,
  type DomainReport,
  launcherSocketName,
  parseDomainReport,
  parsePutResponse,
} from '../../runtime/launcher-api.ts'
import { type Answer, ask, openConsole, openSession } from '../launcher-client.ts'
import { confine, libvirtRootfs, makeDevice, makeOwned, makeRunDirectory } from './rootfs.ts'
import type { MemoryCgroup } from './memory-cgroup.ts'
import { eventually, until } from '../until.ts'

/** A launcher in its "pod": a chroot with PID 1, the launcher, libvirtd and QEMU. */
export interface RunningLauncher {
  readonly socket: string
  /** Its directory, as seen in the pod. */
  readonly insideSockets: string
  /** The directories of the pod's volumes, as seen by the test. */
  readonly volumes: string
  readonly blocks: string
  readonly images: string
  readonly sources: string
  /** The path to a file of the pod, for the test. */
  inPod(name: string): Promise<string>
  ask(method: string, path: string, body?: unknown): Promise<Answer>
  report(): Promise<DomainReport>
  /** Writes to the volume `private` until it is full. */
  fillPrivate(): Promise<void>
  terminationLog(): Promise<string>
  /** Sends the VM, which must be accepted, and waits until it was started or failed to start. */
  put(vm: object): Promise<DomainReport>
  /** Waits until the report is as expected. @throws Error after three minutes, or when the launcher has ended. */
  reported(what: string, isWanted: (report: DomainReport) => boolean, deadlineMs?: number): Promise<DomainReport>
  /** The socket after `GET /console` was upgraded, or the status it was refused with. */
  console(): Promise<Socket>
  /** A session of another kind. */
  session(path: string): Promise<Socket>
  pids(command: string): Promise<number[]>
  signal(command: string, signal: NodeJS.Signals): Promise<void>
  /** The exit code of the "pod". */
  readonly exitCode: Promise<number>
  log(): string
  stop(): Promise<void>
}

/**
 * What an earlier libvirtd of this test file has learned of QEMU, which takes it a second of CPU time. As a handler does,
 * it is sent to each launcher before the VM.
 */
let capabilities: CapabilitiesCache | undefined

/** Ready after 0.5 s; see `startLibvirtd` for the rest. */
export async function startLauncher(
  container: {
    readonly cgroup?: MemoryCgroup
    readonly oomScoreAdj?: number
    readonly privateBytes?: number
    /** The size of a file system in memory for the volumes, which only `inPod` reaches. */
    readonly volumesBytes?: number
    /** The same for the sources of volumes. */
    readonly sourcesBytes?: number
    /** Further variables, as device plugins set them. */
    readonly env?: { readonly [name: string]: string }
    /** The name of the network namespace that is the pod's, which then has /dev/net/tun; that of the test if absent. */
    readonly network?: string
  } = {},
): Promise<RunningLauncher> {
  const { cgroup, oomScoreAdj = 0, privateBytes, volumesBytes, sourcesBytes, env, network } = container
  const rootfs = libvirtRootfs()
  const directory = await makeRunDirectory(rootfs)
  const inside = (name: string) => join(directory.inside, name)
  const outside = (name: string) => join(directory.outside, name)
  await mkdir(outside('project'))
  await mkdir(outside(join('cgroup', cgroup?.mountedAt ?? '')), { recursive: true })
  for (const name of ['private', 'sockets', 'volumes', 'block', 'images', 'sources']) await makeOwned(outside(name))
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
      VIRTSET_IMAGES_DIR: inside('images'),
      VIRTSET_SOURCES_DIR: inside('sources'),
      VIRTSET_TMP_DIR: inside('private'),
      VIRTSET_CGROUP_DIR: inside('cgroup'),
      VIRTSET_TERMINATION_LOG: inside('sockets/termination-log'),
      ...env,
    },
    binds: {
      [inside('project')]: resolve(import.meta.dirname, '../..'),
      ...(cgroup === undefined ? {} : { [inside(join('cgroup', cgroup.mountedAt))]: cgroup.path }),
      ...(network === undefined ? {} : { '/dev/net/tun': await makeDevice(directory.outside, 'tun') }),
    },
    memory: {
      ...(privateBytes === undefined ? {} : { [inside('private')]: privateBytes }),
      ...(volumesBytes === undefined ? {} : { [inside('volumes')]: volumesBytes }),
      ...(sourcesBytes === undefined ? {} : { [inside('sources')]: sourcesBytes }),
      [inside('private/run')]: 16 * 2 ** 20,
    },
    oomScoreAdj,
    ...(cgroup === undefined ? {} : { cgroup: cgroup.path }),
    ...(network === undefined ? {} : { network }),
  })
  const log: string[] = []
  pod.process.stdout?.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  pod.process.stderr?.on('data', (chunk: Buffer) => log.push(chunk.toString()))
  const exitCode = new Promise<number>((done) => {
    pod.process.once('exit', (code, signal) => done(code ?? (signal === null ? -1 : 128)))
  })
  let ended: number | undefined
  void exitCode.then((code) => (ended = code))
  const socket = outside(`sockets/${launcherSocketName}`)
  const report = async () => parseDomainReport((await ask(socket, 'GET', '/domain')).body)
  const launcher: RunningLauncher = {
    socket,
    insideSockets: inside('sockets'),
    volumes: outside('volumes'),
    blocks: outside('block'),
    images: outside('images'),
    sources: outside('sources'),
    inPod: async (name) => `/proc/${(await pod.pids('virt-launcher'))[0]}/root${inside(name)}`,
    ask: (method, path, body) => ask(socket, method, path, body),
    report,
    async put(vm) {
      if (capabilities !== undefined) await ask(socket, 'PUT', '/capabilities', capabilities)
      const { status, body } = await ask(socket, 'PUT', '/vm', vm)
      if (status !== 202) throw new Error(`the VM was not accepted: ${JSON.stringify(body)}`)
      parsePutResponse(body)
      const started = await launcher.reported('it was started, or could not be', ({ phase }) => phase !== 'Defined')
      // Absent if the start failed before, or in a file system that only the pod has.
      capabilities ??= await readCapabilities(outside('private/cache')).catch(() => undefined)
      return started
    },
    async reported(what, isWanted, deadlineMs = 180_000) {
      let last: unknown
      const asked = async () => {
        // Read before the request: the launcher responds until it ends.
        const code = ended
        const now = await report().catch((error: unknown) => {
          last = error
          return undefined
        })
        if (now !== undefined && isWanted(now)) return now
        last = now ?? last
        if (code !== undefined) throw new Error(`not reported: ${what}; the launcher ended with ${code}\n${story()}`)
        // Each request needs memory in the launcher, of which a test may have left little.
        await sleep(100)
        return undefined
      }
      const story = () => `last report: ${last instanceof Error ? last.message : JSON.stringify(last)}\n${log.join('')}`
      return until(asked, undefined, { deadlineMs, describe: () => `${what}; ${story()}` })
    },
    async fillPrivate() {
      const file = await open(join(await launcher.inPod('private'), 'filler'), 'w')
      const full = async () => {
        for (;;) await file.write(Buffer.alloc(4096))
      }
      await full().catch((error: unknown) => {
        if (!(error instanceof Error && 'code' in error && error.code === 'ENOSPC')) throw error
      })
      await file.close()
    },
    terminationLog: () => readFile(outside('sockets/termination-log'), 'utf8'),
    console: () => openConsole(socket),
    session: (path) => openSession(socket, path),
    pids: (command) => pod.pids(command),
    signal: async (command, signal) => {
      for (const pid of await pod.pids(command)) process.kill(pid, signal)
    },
    exitCode,
    log: () => log.join(''),
    stop: () => pod.stop(),
  }
  try {
    await eventually('the launcher answers', async () => (await ask(socket, 'GET', '/domain')).status === 200)
  } catch (error) {
    await pod.stop()
    throw new Error(`the launcher logged: ${log.join('')}`, { cause: error })
  }
  return launcher
}
