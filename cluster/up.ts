import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'

import { ensureBinaries, ensureCsi, type Binaries } from './binaries.ts'
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
import { ensureNetwork, possibleNodes, spareNode, type NodeAddresses } from './network.ts'
import { ensureContainerd, ensureNode, proxyConfiguration, untilSucceeds } from './node.ts'
import { ensurePackages, hostPackages } from './packages.ts'
import { ensurePki, renderKubeconfig } from './pki.ts'
import { ensureProcess, untilSettled, type ProcessDirectories } from './process.ts'
import type { Progress, Step } from './progress.ts'
import type { Settings } from './settings.ts'
import { ensureStorage } from './storage.ts'

/** A running cluster. */
export interface Cluster {
  readonly kubeconfig: string
  readonly binaries: Binaries
  readonly images: readonly Image[]
  /** kubectl for this cluster: `[...cluster.kubectl, 'get', 'pods']`. */
  readonly kubectl: readonly string[]
}

const apiServerPort = 6443
const etcdPorts = { clientPort: 23790, peerPort: 23800 }

export function processDirectories(settings: Settings): ProcessDirectories {
  return { records: join(settings.state, 'processes'), logs: join(settings.state, 'log') }
}

export function kubeconfigOf(settings: Settings): string {
  return join(settings.state, 'kubeconfig')
}

/** kubectl that does not use ~/.kube, not even for its cache. */
export function kubectlOf(settings: Settings, program: string): string[] {
  const cache = join(settings.state, 'kubectl')
  return [program, '--kubeconfig', kubeconfigOf(settings), '--cache-dir', cache]
}

/**
 * Starts a cluster on this host. Processes that already run with the right configuration are not restarted.
 * @param forTests adds the spare node, cordoned, and storage with snapshots
 */
export async function bringUp(progress: Progress, settings: Settings, forTests = false): Promise<Cluster> {
  await progress.step('System packages', 'check that apt-get works as root', (step) =>
    ensurePackages(step, Object.keys(hostPackages)),
  )
  const binaries = await progress.step(
    'Kubernetes, containerd and CoreDNS',
    'requires Go >= 1.26 and a Go module proxy, or KUBE_BIN_DIR',
    (step) => ensureBinaries(step, settings),
  )
  const images = await progress.step('Images', 'check that a Debian mirror and the npm registry respond', (step) =>
    ensureImages(step, settings, binaries),
  )
  const kubeconfig = kubeconfigOf(settings)
  const kubectl = kubectlOf(settings, join(binaries.kubernetes, 'kubectl'))
  // An existing node remains until `make down`, even if NODES is smaller now.
  const isWanted = (node: NodeAddresses, index: number) => (node === spareNode ? forTests : index < settings.nodes)
  const nodes = possibleNodes.filter(
    (node, index) => isWanted(node, index) || existsSync(join(settings.state, 'nodes', node.name)),
  )
  const [first] = nodes
  if (first === undefined) throw new Error('a cluster has at least one node')
  const server = `https://${first.address}:${apiServerPort}`
  const directories = processDirectories(settings)

  mkdirSync(settings.state, { recursive: true })
  await progress.step('Network of the nodes', 'run as root, and check the output of `ip link`', (step) =>
    ensureNetwork(step, settings.state, nodes),
  )
  const pki = await progress.step('Control plane', `see ${directories.logs}; a port may be in use`, async (step) => {
    const made = await ensurePki(
      join(settings.state, 'pki'),
      ['127.0.0.1', first.address, apiServerServiceAddress],
      possibleNodes,
      new Date(),
    )
    const conf = join(settings.state, 'conf')
    ensureFile(kubeconfig, renderKubeconfig(made, server, 'admin'), 0o600)
    const audit = { policy: join(conf, 'audit.yaml'), log: join(directories.logs, 'audit.log') }
    ensureFile(audit.policy, auditPolicy)
    const programs = binaries.kubernetes
    const data = join(settings.state, 'etcd')
    const etcd = { program: join(programs, 'etcd'), data, ...etcdPorts, isVolatile: false }
    await ensureProcess(directories, { name: 'etcd', command: etcdCommand(etcd) })
    const apiServer = { program: join(programs, 'kube-apiserver'), pki: made, etcdPort: etcdPorts.clientPort, audit }
    await ensureProcess(directories, {
      name: 'kube-apiserver',
      command: apiServerCommand({ ...apiServer, address: first.address, port: apiServerPort }),
      inputs: [auditPolicy],
    })
    const kubeconfigFor = (name: string) => {
      const path = join(conf, `${name}.kubeconfig`)
      ensureFile(path, renderKubeconfig(made, server, name), 0o600)
      return path
    }
    // The default roles exist only once the API server is ready; without them the other processes exit.
    await untilSucceeds(step, [...kubectl, 'get', '--raw', '/readyz'], 'kube-apiserver')
    await ensureProcess(directories, {
      name: 'kube-controller-manager',
      command: controllerManagerCommand(
        join(programs, 'kube-controller-manager'),
        made,
        kubeconfigFor('controller-manager'),
        join(settings.state, 'volume-plugins'),
      ),
    })
    await ensureProcess(directories, {
      name: 'kube-scheduler',
      command: schedulerCommand(join(programs, 'kube-scheduler'), kubeconfigFor('scheduler')),
    })
    const proxy = ensureFile(join(conf, 'proxy.yaml'), proxyConfiguration(kubeconfigFor('proxy')))
    await ensureProcess(directories, {
      name: 'kube-proxy',
      command: [join(programs, 'kube-proxy'), `--config=${join(conf, 'proxy.yaml')}`],
      inputs: [proxy],
    })
    for (const name of ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy'])
      await untilSettled(directories, name)
    return made
  })
  const names = nodes.map(({ name }) => name).join(', ')
  await progress.step(`Nodes ${names}`, `see ${directories.logs}/kubelet-*.log`, async (step) => {
    for (const node of nodes) await ensureContainerd(step, directories, settings.state, node, binaries, images)
    // Images are imported on one CPU for each node.
    await Promise.all(
      nodes.map(async (node) => {
        if (node === spareNode) await registerCordoned(step, kubectl, node.name)
        await ensureNode(step, directories, settings.state, node, binaries, pki, server, images)
        await untilReady(step, kubectl, node.name)
      }),
    )
  })
  await progress.step('Cluster DNS', `${kubectl.join(' ')} -n kube-system describe pods`, (step) =>
    ensureDns(step, kubectl, images),
  )
  if (forTests)
    await progress.step('Storage of the tests', `see ${directories.logs}/csi-files.log`, async (step) => {
      const programs = await ensureCsi(step, settings)
      await ensureStorage(step, directories, { programs, kubeconfig, kubectl, state: settings.state, nodes })
    })
  return { kubeconfig, binaries, images, kubectl }
}

/** Creates a Node before its kubelet starts, so that nothing is ever scheduled to it. */
async function registerCordoned(step: Step, kubectl: readonly string[], name: string): Promise<void> {
  const node = { apiVersion: 'v1', kind: 'Node', metadata: { name }, spec: { unschedulable: true } }
  const apply = [...kubectl, 'apply', '--server-side', '--force-conflicts', '-f', '-']
  await step.run(apply, { input: JSON.stringify(node) })
}

async function untilReady(step: Step, kubectl: readonly string[], node: string): Promise<void> {
  step.show('waiting for the node to be ready')
  await untilSucceeds(step, [...kubectl, 'get', 'node', node], `node ${node}`)
  await step.run([...kubectl, 'wait', `node/${node}`, '--for=condition=Ready', '--timeout=60s'])
  step.show('')
}

async function ensureDns(step: Step, kubectl: readonly string[], images: readonly Image[]): Promise<void> {
  const image = images.find(({ name }) => name === 'coredns')
  if (image === undefined) throw new Error('no CoreDNS image among the images')
  await step.run([...kubectl, 'apply', '--server-side', '-f', '-'], { input: dnsManifest(image.reference) })
  await step.run([...kubectl, '-n', 'kube-system', 'rollout', 'status', 'deployment/coredns', '--timeout=60s'])
}

/** Records all writes by virtset's service accounts: the benchmark counts them. */
const auditPolicy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: Metadata
  userGroups: [system:serviceaccounts:virtset-system]
  verbs: [create, update, patch, delete]
- level: None
`
