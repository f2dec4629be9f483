import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { lastLines, run } from '../../cluster/command.ts'
import { argumentsOf, confine, limitsOf } from '../confinement.ts'
import type { Confinement, Usage } from '../confinement.ts'
import { until } from '../until.ts'
import type { TestApiServer } from './apiserver.ts'
import { freePort } from './free-port.ts'
import { installKinds } from './kinds.ts'
import { installWebhookService, system } from './service.ts'
import type { WebhookService } from './service.ts'

/** A replica of one of virtset's processes. */
export interface Replica {
  readonly name: string
  readonly child: ChildProcess
  readonly port: number
  /** Of the webhooks: the ports for subresources and sessions. */
  readonly subresourcesPort: number
  readonly sessionsPort: number
  readonly healthPort: number
  log(): string
  /** The memory and CPU time used so far, and whether the kernel killed it because of its memory limit. */
  usage(): Usage
}

/** The real processes, each with its account, and the permissions and limits of its manifests. */
export interface Processes {
  /** Resolves when it is ready and the API server can reach it. */
  startWebhooks(name: string): Promise<Replica>
  startController(name: string): Promise<Replica>
  /** Without the policy virtset-handler-node: a handler's token is bound to a node, and there is none. */
  startHandler(name: string, nodeName: string): Promise<Replica>
  /** Removes a replica from the Services, as failing readiness would. */
  withdraw(replica: Replica): Promise<void>
  stop(): Promise<void>
}

const launcherImage = 'launcher:1'

/** The admission policies with the controller's image in this test, as kustomize would set it. */
const policies = (): string =>
  [
    'controller/policy',
    'controller/pods',
    'controller/claims',
    'controller/volume-snapshots',
    'controller/pod-status',
    'controller/budgets',
    'webhooks/policy',
    'base/events',
    'base/status',
    'base/flow-control',
  ]
    .map((name) => readFileSync(`manifests/${name}.yaml`, 'utf8').replace('"virtset-launcher"', `"${launcherImage}"`))
    .join('---\n')

export interface ProcessOptions {
  /** The limits of a process; by default those of its manifest. */
  readonly limitsFor?: typeof limitsOf
  readonly environment?: Environment
  /** How long a process may take until it serves. */
  readonly startDeadlineMs?: number
}

export async function installProcesses(
  api: TestApiServer,
  { limitsFor = limitsOf, environment = {}, startDeadlineMs = 120_000 }: ProcessOptions = {},
): Promise<Processes> {
  const kubectl = (rest: string[], input?: string) =>
    run([api.kubectl, '--kubeconfig', api.kubeconfig, ...rest], input === undefined ? {} : { input })
  await installKinds(api)
  await kubectl(['create', 'namespace', system])
  await kubectl(['create', 'serviceaccount', 'default'])
  await kubectl([
    'apply',
    '-f',
    'manifests/controller/rbac.yaml',
    '-f',
    'manifests/handler/rbac.yaml',
    '-f',
    'manifests/webhooks/rbac.yaml',
    '-f',
    'manifests/base/roles.yaml',
  ])
  await kubectl(['apply', '-f', '-'], policies())
  const started: { readonly child: ChildProcess; readonly confinement: Confinement }[] = []

  const kubeconfigOf = async (account: string): Promise<string> => {
    const token = (await kubectl(['create', 'token', '-n', system, account])).trim()
    const file = join(api.directory, `${account}.kubeconfig`)
    const ca = Buffer.from(api.certificateAuthority).toString('base64')
    const config = {
      clusters: [{ name: 'c', cluster: { server: api.server, 'certificate-authority-data': ca } }],
      users: [{ name: 'u', user: { token } }],
      contexts: [{ name: 'x', context: { cluster: 'c', user: 'u' } }],
      'current-context': 'x',
    }
    writeFileSync(file, JSON.stringify(config))
    return file
  }

  const start = async (name: string, component: Component, port: number, env: Environment): Promise<Replica> => {
    const file = join(api.directory, `${name}.log`)
    const log = openSync(file, 'a')
    const healthPort = await freePort()
    const subresourcesPort = await freePort()
    const sessionsPort = await freePort()
    const confinement = confine(limitsFor(manifestOf[component], component))
    const [program, ...rest] = confinement.wrap([process.execPath, ...argumentsOf(manifestOf[component], component)])
    const child = spawn(program, rest, {
      stdio: ['ignore', log, log],
      env: {
        ...process.env,
        POD_NAME: name,
        HEALTH_PORT: String(healthPort),
        SUBRESOURCES_PORT: String(subresourcesPort),
        SESSIONS_PORT: String(sessionsPort),
        METRICS_PORT: '0',
        PROPAGATION_SECONDS: '1',
        ...environment,
        ...env,
      },
    })
    started.push({ child, confinement })
    return {
      name,
      child,
      port,
      subresourcesPort,
      sessionsPort,
      healthPort,
      log: () => readFileSync(file, 'utf8'),
      usage: confinement.usage,
    }
  }

  const untilLogged = async (replica: Replica, words: string): Promise<void> => {
    const describe = () => `${replica.name} does not log "${words}"\n${lastLines(replica.log(), 15)}`
    const isLogged = () => replica.log().includes(words)
    const hasEnded = () => replica.child.exitCode !== null
    await until(() => isLogged() || hasEnded(), undefined, { deadlineMs: startDeadlineMs, describe })
    if (!isLogged()) throw new Error(`ended with ${replica.child.exitCode}: ${describe()}`)
  }

  // One installation, also for replicas that are started at the same time.
  let service: Promise<WebhookService> | undefined

  return {
    async startWebhooks(name) {
      service ??= installWebhookService(api)
      const routes = await service
      const port = await freePort()
      const kubeconfig = await kubeconfigOf('virtset-webhooks')
      const replica = await start(name, 'webhooks', port, { KUBECONFIG: kubeconfig, PORT: String(port) })
      await untilLogged(replica, '"serving admission requests"')
      const { subresourcesPort: subresources, sessionsPort: sessions } = replica
      await routes.lead(name, { webhooks: port, subresources, sessions })
      await routes.available()
      return replica
    },
    async startController(name) {
      const env = { KUBECONFIG: await kubeconfigOf('virtset-controller'), LAUNCHER_IMAGE: launcherImage }
      return start(name, 'controller', 0, env)
    },
    async startHandler(name, nodeName) {
      const kubeconfig = await kubeconfigOf('virtset-handler')
      const env = { KUBECONFIG: kubeconfig, NODE_NAME: nodeName, KUBELET_ROOT: api.directory }
      return start(name, 'handler', 0, env)
    },
    async withdraw(replica) {
      await (await service)?.withdraw(replica.name)
    },
    async stop() {
      for (const { child, confinement } of started) {
        const ended = child.exitCode !== null || child.signalCode !== null ? undefined : once(child, 'exit')
        child.kill('SIGKILL')
        await ended
        confinement.remove()
      }
    },
  }
}

export const manifestOf = {
  webhooks: 'manifests/webhooks/deployment.yaml',
  controller: 'manifests/controller/deployment.yaml',
  handler: 'manifests/handler/daemonset.yaml',
} as const
export type Component = keyof typeof manifestOf
interface Environment {
  readonly [name: string]: string
}
