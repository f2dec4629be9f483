import { spawn } from 'node:child_process'
import type { ChildProcess } from 'node:child_process'
import { openSync, readFileSync, writeFileSync } from 'node:fs'
import { networkInterfaces } from 'node:os'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { lastLines, run } from '../../cluster/command.ts'
import { until } from '../until.ts'
import type { TestApiServer } from './apiserver.ts'
import { freePort } from './free-port.ts'
import { installKinds } from './kinds.ts'

/** One replica of a process of ours. */
export interface Replica {
  readonly name: string
  readonly child: ChildProcess
  readonly port: number
  log(): string
}

/** The processes as they are, each with its own account and no more rights than its manifests give. */
export interface Processes {
  /** Resolves when it is ready and the Service leads to it. */
  startWebhooks(name: string): Promise<Replica>
  startController(name: string): Promise<Replica>
  /** Takes a replica out of the Service, as its readiness would. */
  withdraw(replica: Replica): Promise<void>
  stop(): Promise<void>
}

const system = 'virtset-system'
const launcherImage = 'launcher:1'

/** The admission policies, with the image that the controller is given here, as kustomize writes it. */
const policies = (): string =>
  ['controller/policy', 'controller/pods', 'webhooks/policy', 'base/events']
    .map((name) => readFileSync(`manifests/${name}.yaml`, 'utf8').replace('virtset-launcher', launcherImage))
    .join('---\n')

export async function installProcesses(api: TestApiServer): Promise<Processes> {
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
    'manifests/webhooks/rbac.yaml',
    '-f',
    'manifests/base/roles.yaml',
  ])
  await kubectl(['apply', '-f', '-'], policies())
  const children: ChildProcess[] = []

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

  const start = (name: string, main: string, port: number, env: { readonly [key: string]: string }): Replica => {
    const file = join(api.directory, `${name}.log`)
    const log = openSync(file, 'a')
    const child = spawn(process.execPath, [main], {
      stdio: ['ignore', log, log],
      env: { ...process.env, POD_NAME: name, HEALTH_PORT: '0', PROPAGATION_SECONDS: '1', ...env },
    })
    children.push(child)
    return { name, child, port, log: () => readFileSync(file, 'utf8') }
  }

  const untilSaid = (replica: Replica, words: string) =>
    until(() => replica.log().includes(words), undefined, {
      deadlineMs: 120_000,
      describe: () => `${replica.name} does not say "${words}"\n${lastLines(replica.log(), 15)}`,
    })

  const slice = (replica: Replica) => `virtset-webhooks-${replica.name}`
  let isInstalled = false

  return {
    async startWebhooks(name) {
      if (!isInstalled) {
        isInstalled = true
        const rendered = await kubectl(['kustomize', 'manifests/webhooks'])
        await kubectl(['apply', '-f', '-'], withoutPods(rendered))
      }
      const port = await freePort()
      const kubeconfig = await kubeconfigOf('virtset-webhooks')
      const replica = start(name, 'webhooks/main.ts', port, { KUBECONFIG: kubeconfig, PORT: String(port) })
      await untilSaid(replica, '"reviewing"')
      await kubectl(['apply', '-f', '-'], JSON.stringify(endpointSlice(slice(replica), port)))
      return replica
    },
    async startController(name) {
      const env = { KUBECONFIG: await kubeconfigOf('virtset-controller'), LAUNCHER_IMAGE: launcherImage }
      return start(name, 'controller/main.ts', 0, env)
    },
    async withdraw(replica) {
      await kubectl(['delete', 'endpointslice', '-n', system, slice(replica), '--ignore-not-found'])
    },
    async stop() {
      for (const child of children) child.kill('SIGKILL')
    },
  }
}

interface Document {
  readonly kind: string
  readonly spec?: { selector?: object }
}

/** All of the webhooks' manifests but for the Deployment and what is about its pods; no controller looks for endpoints here. */
function withoutPods(manifests: string): string {
  const kept = ['Service', 'APIService', 'MutatingWebhookConfiguration', 'ValidatingWebhookConfiguration']
  const items = parseAllDocuments(manifests)
    .map((document): Document => document.toJS())
    .filter(({ kind }) => kept.includes(kind))
  for (const { kind, spec } of items) if (kind === 'Service') delete spec?.selector
  return JSON.stringify({ apiVersion: 'v1', kind: 'List', items })
}

/** An address of this machine: the API server takes no endpoint on the loopback device. */
function ownAddress(): string {
  const found = Object.values(networkInterfaces())
    .flat()
    .find((one) => one?.family === 'IPv4' && !one.internal)
  if (found === undefined) throw new Error('this machine has no address but those of the loopback device')
  return found.address
}

const endpointSlice = (name: string, port: number) => ({
  apiVersion: 'discovery.k8s.io/v1',
  kind: 'EndpointSlice',
  metadata: { name, namespace: system, labels: { 'kubernetes.io/service-name': 'virtset-webhooks' } },
  addressType: 'IPv4',
  endpoints: [{ addresses: [ownAddress()], conditions: { ready: true, serving: true, terminating: false } }],
  ports: [{ name: 'webhooks', port, protocol: 'TCP' }],
})
