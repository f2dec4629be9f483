import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'

import { ensureBinaries, type Binaries } from './binaries.ts'
import {
  apiServerCommand,
  apiServerServiceAddress,
  controllerManagerCommand,
  etcdCommand,
  schedulerCommand,
} from './controlplane.ts'
import { dnsManifest } from './dns.ts'
import { ensureFile } from './file.ts'
import { ensureImages, type Image } from './images.ts'
import { ensureNetwork, nodesOf } from './network.ts'
import { ensureNode, proxyConfiguration, untilAnswers } from './node.ts'
import { ensurePackages, machinePackages } from './packages.ts'
import { ensurePki, renderKubeconfig } from './pki.ts'
import { ensureProcess, untilSettled, type Ledger } from './process.ts'
import type { Progress, Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** A cluster that runs. */
export interface Cluster {
  readonly kubeconfig: string
  readonly binaries: Binaries
  readonly images: readonly Image[]
  /** kubectl for this cluster: `[...cluster.kubectl, 'get', 'pods']`. */
  readonly kubectl: readonly string[]
}

const apiServerPort = 6443
const etcdPorts = { clientPort: 23790, peerPort: 23800 }

export function ledgerOf(settings: Settings): Ledger {
  return { records: join(settings.state, 'processes'), logs: join(settings.state, 'log') }
}

export function kubeconfigOf(settings: Settings): string {
  return join(settings.state, 'kubeconfig')
}

/** kubectl that leaves the user's own ~/.kube alone, its cache too. */
export function kubectlOf(settings: Settings, program: string): string[] {
  const cache = join(settings.state, 'kubectl')
  return [program, '--kubeconfig', kubeconfigOf(settings), '--cache-dir', cache]
}

/** Brings up a cluster on this machine. What runs already and is as it should be is left alone. */
export async function bringUp(progress: Progress, settings: Settings): Promise<Cluster> {
  await progress.step('System packages', 'look whether apt-get works here, as root', (step) =>
    ensurePackages(step, Object.keys(machinePackages)),
  )
  const binaries = await progress.step(
    'Kubernetes, containerd and CoreDNS',
    'Go >= 1.26 and a Go module proxy are needed, or KUBE_BIN_DIR',
    (step) => ensureBinaries(step, settings),
  )
  const images = await progress.step('Images', 'look whether a Debian mirror and the npm registry answer', (step) =>
    ensureImages(step, settings, binaries),
  )
  const kubeconfig = kubeconfigOf(settings)
  const kubectl = kubectlOf(settings, join(binaries.kubernetes, 'kubectl'))
  // A node that is there stays, and gets what the others get, until `make down`.
  const nodes = nodesOf(2).filter(
    ({ name }, index) => index < settings.nodes || existsSync(join(settings.state, 'nodes', name)),
  )
  const [first] = nodes
  if (first === undefined) throw new Error('a cluster has at least one node')
  const server = `https://${first.address}:${apiServerPort}`
  const ledger = ledgerOf(settings)

  mkdirSync(settings.state, { recursive: true })
  await progress.step('Network of the nodes', 'look whether this is root, and what `ip link` says', (step) =>
    ensureNetwork(step, settings.state, nodes),
  )
  const pki = await progress.step('Control plane', `look into ${ledger.logs}; is a port taken?`, async (step) => {
    const made = await ensurePki(
      join(settings.state, 'pki'),
      ['127.0.0.1', first.address, apiServerServiceAddress],
      nodesOf(2),
      new Date(),
    )
    const conf = join(settings.state, 'conf')
    ensureFile(kubeconfig, renderKubeconfig(made, server, 'admin'), 0o600)
    const audit = { policy: join(conf, 'audit.yaml'), log: join(ledger.logs, 'audit.log') }
    ensureFile(audit.policy, auditPolicy)
    const programs = binaries.kubernetes
    const data = join(settings.state, 'etcd')
    const etcd = { program: join(programs, 'etcd'), data, ...etcdPorts, isForgetful: false }
    await ensureProcess(ledger, { name: 'etcd', command: etcdCommand(etcd) })
    const apiServer = { program: join(programs, 'kube-apiserver'), pki: made, etcdPort: etcdPorts.clientPort, audit }
    await ensureProcess(ledger, {
      name: 'kube-apiserver',
      command: apiServerCommand({ ...apiServer, address: first.address, port: apiServerPort }),
      inputs: [auditPolicy],
    })
    const actor = (name: string) => {
      const path = join(conf, `${name}.kubeconfig`)
      ensureFile(path, renderKubeconfig(made, server, name), 0o600)
      return path
    }
    // Ready is later than answering: the roles of the others are made in between, and without them they give up.
    await untilAnswers(step, [...kubectl, 'get', '--raw', '/readyz'], 'kube-apiserver')
    await ensureProcess(ledger, {
      name: 'kube-controller-manager',
      command: controllerManagerCommand(
        join(programs, 'kube-controller-manager'),
        made,
        actor('controller-manager'),
        join(settings.state, 'volume-plugins'),
      ),
    })
    await ensureProcess(ledger, {
      name: 'kube-scheduler',
      command: schedulerCommand(join(programs, 'kube-scheduler'), actor('scheduler')),
    })
    const proxy = ensureFile(join(conf, 'proxy.yaml'), proxyConfiguration(actor('proxy')))
    await ensureProcess(ledger, {
      name: 'kube-proxy',
      command: [join(programs, 'kube-proxy'), `--config=${join(conf, 'proxy.yaml')}`],
      inputs: [proxy],
    })
    for (const name of ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'])
      await untilSettled(ledger, name)
    return made
  })
  for (const [index, node] of nodes.entries())
    await progress.step(`Node ${node.name}`, `look into ${ledger.logs}/kubelet-${node.name}.log`, async (step) => {
      await ensureNode(step, ledger, settings.state, node, index, binaries, pki, server, images)
      await untilReady(step, kubectl, node.name)
    })
  await progress.step('Cluster DNS', `${kubectl.join(' ')} -n kube-system describe pods`, (step) =>
    ensureDns(step, kubectl, images),
  )
  return { kubeconfig, binaries, images, kubectl }
}

async function untilReady(step: Step, kubectl: readonly string[], node: string): Promise<void> {
  step.say('waiting for the node to be ready')
  await untilAnswers(step, [...kubectl, 'get', 'node', node], `node ${node}`)
  await step.run([...kubectl, 'wait', `node/${node}`, '--for=condition=Ready', '--timeout=60s'])
  step.say('')
}

async function ensureDns(step: Step, kubectl: readonly string[], images: readonly Image[]): Promise<void> {
  const image = images.find(({ name }) => name === 'coredns')
  if (image === undefined) throw new Error('no CoreDNS image among the images')
  await step.run([...kubectl, 'apply', '--server-side', '-f', '-'], { input: dnsManifest(image.reference) })
  await step.run([...kubectl, '-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', '--timeout=60s'])
}

/** What the processes of virtset and the kubelets write is recorded, by whom and how often: the bench counts it. */
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: [system:serviceaccounts:virtset-system]
  verbs: [create, update, patch, delete]
- level: None
`
