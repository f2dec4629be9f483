import { spawn, type ChildProcess } from 'node:child_process'
import { existsSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { Agent, request } from 'undici'

import { lastLines } from '../../cluster/command.ts'
import { apiServerCommand, etcdCommand } from '../../cluster/controlplane.ts'
import { ensurePki, renderKubeconfig } from '../../cluster/pki.ts'
import { freePort } from './free-port.ts'

/** A kube-apiserver for one test file, without nodes, scheduler and controllers. */
export interface TestApiServer {
  /** `https://127.0.0.1:PORT` */
  readonly server: string
  /** Path of a kubeconfig of a cluster admin (group system:masters), and its PEM parts for other clients. */
  readonly kubeconfig: string
  readonly certificateAuthority: string
  readonly clientCertificate: string
  readonly clientKey: string
  /** The directory with all its files, including etcd.log and apiserver.log. */
  readonly directory: string
  readonly kubectl: string
  /** `http://127.0.0.1:PORT` */
  readonly etcd: string
  /** Kills the API server and starts it again, at the same address. */
  restart(): Promise<void>
  stop(): Promise<void>
}

export interface ApiServerOptions {
  /** An audit policy; the log is `audit.log` in the directory. */
  readonly auditPolicy?: object
  /** Additional flags. */
  readonly flags?: readonly string[]
}

/**
 * Four times Go's own: memory is plentiful in tests, and garbage collection took a fifth of the CPU time of a start.
 */
const garbagePercent = '400'

/** Usually 3 s; on a host with a load of ten, 80 s were measured. */
const startDeadlineMs = 300_000

/**
 * Starts etcd and kube-apiserver from the directory KUBE_BIN_DIR (`make test` sets it) on free ports of the loopback
 * device. It is ready after about 3 seconds. If it does not start, the error contains the end of the log.
 */
export async function startApiServer(
  binaries = process.env['KUBE_BIN_DIR'],
  options: ApiServerOptions = {},
): Promise<TestApiServer> {
  if (binaries === undefined || !existsSync(join(binaries, 'kube-apiserver')))
    throw new Error('KUBE_BIN_DIR names no directory with kube-apiserver: `make binaries` prints one')
  const directory = mkdtempSync(join(tmpdir(), 'virtset-apiserver-'))
  const children: ChildProcess[] = []
  const stop = async () => {
    for (const child of children.toReversed()) await end(child)
    await agent?.close()
    rmSync(directory, { recursive: true, force: true })
  }
  let agent: Agent | undefined
  const start = (name: string, [program, ...rest]: string[]) => {
    if (program === undefined) throw new Error(`no program for ${name}`)
    const log = openSync(join(directory, `${name}.log`), 'a')
    const child = spawn(program, rest, { env: { ...process.env, GOGC: garbagePercent }, stdio: ['ignore', log, log] })
    children.push(child)
    return child
  }
  try {
    const [clientPort, peerPort, port] = [await freePort(), await freePort(), await freePort()]
    const pki = await ensurePki(join(directory, 'pki'), ['127.0.0.1', '10.96.0.1'], [], new Date())
    const etcd = join(binaries, 'etcd')
    const data = join(directory, 'etcd')
    start('etcd', etcdCommand({ program: etcd, data, clientPort, peerPort, isVolatile: true }))
    const program = join(binaries, 'kube-apiserver')
    const audit = { policy: join(directory, 'audit.json'), log: join(directory, 'audit.log') }
    const { auditPolicy, flags = [] } = options
    if (auditPolicy !== undefined) writeFileSync(audit.policy, JSON.stringify(auditPolicy))
    const command = apiServerCommand({
      program,
      pki,
      etcdPort: clientPort,
      address: '127.0.0.1',
      port,
      ...(auditPolicy === undefined ? {} : { audit }),
    })
    let apiServer = start('apiserver', [...command, ...flags])
    const server = `https://127.0.0.1:${port}`
    const pem = (file: string) => readFileSync(join(pki.directory, file), 'utf8')
    const [ca, cert, key] = [pem('ca.crt'), pem('admin.crt'), pem('admin.key')]
    const own = new Agent({ connect: { ca, cert, key } })
    agent = own
    await untilReady(server, own, apiServer, directory)
    const kubeconfig = join(directory, 'kubeconfig')
    writeFileSync(kubeconfig, renderKubeconfig(pki, server, 'admin'), { mode: 0o600 })
    return {
      server,
      kubeconfig,
      certificateAuthority: ca,
      clientCertificate: cert,
      clientKey: key,
      directory,
      kubectl: join(binaries, 'kubectl'),
      etcd: `http://127.0.0.1:${clientPort}`,
      async restart() {
        await end(apiServer)
        apiServer = start('apiserver', [...command, ...flags])
        await untilReady(server, own, apiServer, directory)
      },
      stop,
    }
  } catch (error) {
    await stop()
    throw error
  }
}

/** /readyz is not enough: the default namespace is created only at the end of the API server's start. */
async function untilReady(server: string, agent: Agent, child: ChildProcess, directory: string): Promise<void> {
  const deadline = Date.now() + startDeadlineMs
  let last = ''
  while (Date.now() < deadline && child.exitCode === null) {
    try {
      for (const path of ['/readyz', '/api/v1/namespaces/default']) {
        const answer = await request(server + path, { dispatcher: agent })
        last = `${path}: ${answer.statusCode} ${await answer.body.text()}`
        if (answer.statusCode !== 200) throw new Error(last)
      }
      return
    } catch (error) {
      last = error instanceof Error ? error.message : String(error)
      await sleep(50)
    }
  }
  const logs = ['etcd', 'apiserver'].map((name) => lastLines(readFileSync(join(directory, `${name}.log`), 'utf8'), 15))
  throw new Error(`kube-apiserver is not ready: ${last}\n${logs.join('\n')}`)
}

async function end(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  // Their data is not needed, and kube-apiserver alone would take several seconds to shut down.
  const gone = new Promise((resolve) => child.once('exit', resolve))
  child.kill('SIGKILL')
  await gone
}
