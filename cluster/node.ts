import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import type { Binaries } from './binaries.ts'
import { cgroupOf, ensureCgroup } from './cgroup.ts'
import { attempt } from './command.ts'
import { dnsServiceAddress } from './controlplane.ts'
import { ensureFile } from './file.ts'
import type { Image } from './images.ts'
import { blobPath, digestsOf, findManifest } from './layout.ts'
import { ensureNamespace, inNamespace, namespaceHolder, type Namespace } from './namespace.ts'
import { hasIpv6, podRange, podRangeIpv6, type NodeAddresses } from './network.ts'
import { renderKubeconfig, type Pki } from './pki.ts'
import { bootId, ensureProcess, untilSettled, type ProcessDirectories } from './process.ts'
import type { Step } from './progress.ts'

/** The paths of a node's files on the host. */
export interface NodePaths {
  readonly configuration: string
  /** The configuration of the network of pods, and CNI plugins beside those of the host. */
  readonly cni: string
  readonly cniPlugins: string
  readonly containerd: string
  /** State that is not valid after a reboot. */
  readonly run: string
  readonly socket: string
  readonly namespace: Namespace
}

/** The kubelet's usual root directory, which exists inside a node's mount namespace. */
const kubeletRoot = '/var/lib/kubelet'

/** In the directory `cni`. */
export const cniConfigurationFile = '10-virtset.conflist'
/** Those of Debian. */
export const hostCniPlugins = '/usr/lib/cni'

export function nodePaths(state: string, node: string): NodePaths {
  const root = join(state, 'nodes', node)
  const run = join(root, 'run')
  return {
    configuration: join(root, 'conf'),
    cni: join(root, 'conf/cni'),
    cniPlugins: join(root, 'cni-plugins'),
    containerd: join(root, 'containerd'),
    run,
    socket: join(run, 'containerd.sock'),
    namespace: {
      file: join(namespaceHolder(state), node),
      directories: {
        [kubeletRoot]: join(root, 'kubelet'),
        '/var/lib/cni': join(root, 'cni'),
        '/var/log/pods': join(root, 'log/pods'),
        '/var/log/containers': join(root, 'log/containers'),
        '/run/containerd': join(run, 'shims'),
      },
    },
  }
}

/** containerd 2's configuration. Without the lines that have a comment, no container starts. */
function containerdConfiguration(paths: NodePaths, pauseImage: string): string {
  return `version = 3
root = "${paths.containerd}"
state = "${join(paths.run, 'containerd')}"
disabled_plugins = ["io.containerd.internal.v1.opt", "io.containerd.nri.v1.nri"]
[grpc]
address = "${paths.socket}"
[plugins.'io.containerd.cri.v1.images'.pinned_images]
sandbox = "${pauseImage}"
[plugins.'io.containerd.cri.v1.runtime']
# Without CAP_SYS_RESOURCE the score cannot be lowered, and runc fails.
restrict_oom_score_adj = true
netns_mounts_under_state_dir = true
# A block device in a pod belongs to the user who runs there, not to root.
device_ownership_from_security_context = true
[plugins.'io.containerd.cri.v1.runtime'.cni]
bin_dirs = ["${hostCniPlugins}", "${paths.cniPlugins}"]
conf_dir = "${paths.cni}"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc]
runtime_type = "io.containerd.runc.v2"
[plugins.'io.containerd.cri.v1.runtime'.containerd.runtimes.runc.options]
SystemdCgroup = false
Root = "${join(paths.run, 'runc')}"
`
}

/**
 * Each pod has its own link to the host, which routes. On a bridge, responses of a Service's pod to a pod on the same
 * bridge would bypass kube-proxy unless the kernel filters bridges.
 */
function cniConfiguration(node: NodeAddresses): string {
  return JSON.stringify({
    cniVersion: '1.0.0',
    name: 'virtset',
    plugins: [
      {
        type: 'ptp',
        ipMasq: false,
        ipam: {
          type: 'host-local',
          ranges: [node.pods, ...(node.ipv6 === undefined ? [] : [node.ipv6.pods])].map((subnet) => [{ subnet }]),
          routes: ['0.0.0.0/0', ...(node.ipv6 === undefined ? [] : ['::/0'])].map((dst) => ({ dst })),
        },
      },
    ],
  })
}

/**
 * Each kubelet has the usual ports on its node's own address.
 *
 * NeverVerify: an image that was pulled under one name (`make install` in a test) must not be verified under the name
 * of its import. nodeStatusMaxImages: tests find images of a node in its status, which otherwise has the 50 largest.
 * maxContainerRestartPeriod: tests kill the same container again and again, which the kubelet would otherwise start
 * again up to five minutes later.
 */
export function kubeletConfiguration(node: NodeAddresses, paths: NodePaths, pki: Pki): string {
  const file = (name: string) => join(pki.directory, name)
  return `apiVersion: kubelet.config.k8s.io/v1beta1
kind: KubeletConfiguration
authentication: {anonymous: {enabled: false}, webhook: {enabled: true}, x509: {clientCAFile: ${file('ca.crt')}}}
authorization: {mode: Webhook}
tlsCertFile: ${file(`${node.name}.crt`)}
tlsPrivateKeyFile: ${file(`${node.name}.key`)}
address: ${node.address}
healthzBindAddress: ${node.address}
containerRuntimeEndpoint: unix://${paths.socket}
cgroupDriver: cgroupfs
cgroupRoot: ${cgroupOf(node.name)}
failCgroupV1: false
failSwapOn: false
makeIPTablesUtilChains: false
clusterDNS: [${dnsServiceAddress}]
clusterDomain: cluster.local
resolvConf: /etc/resolv.conf
evictionHard: {nodefs.available: "1%", imagefs.available: "1%", memory.available: "100Mi"}
imageGCHighThresholdPercent: 100
imagePullCredentialsVerificationPolicy: NeverVerify
nodeStatusMaxImages: -1
crashLoopBackOff: {maxContainerRestartPeriod: 2s}
volumePluginDir: ${kubeletRoot}/volume-plugins
`
}

export function proxyConfiguration(kubeconfig: string): string {
  return `apiVersion: kubeproxy.config.k8s.io/v1alpha1
kind: KubeProxyConfiguration
clientConnection: {kubeconfig: ${kubeconfig}}
mode: nftables
clusterCIDR: ${[podRange, ...(hasIpv6() ? [podRangeIpv6] : [])].join()}
hostnameOverride: node1
# Its sysctls are read-only in containers.
conntrack: {maxPerCore: 0}
healthzBindAddress: 127.0.0.1:10256
metricsBindAddress: 127.0.0.1:10249
`
}

/** Starts a node's containerd. Not for several nodes at once: the first one makes mounts that the others need. */
export async function ensureContainerd(
  step: Step,
  directories: ProcessDirectories,
  state: string,
  node: NodeAddresses,
  binaries: Binaries,
  images: readonly Image[],
): Promise<void> {
  const paths = nodePaths(state, node.name)
  const pause = images.find((image) => image.name === 'pause')
  if (pause === undefined) throw new Error('no pause image among the images')
  removeStateOfLastBoot(paths)
  for (const directory of [paths.containerd, paths.run]) mkdirSync(directory, { recursive: true })
  ensureCgroup(node.name)
  await ensureNamespace(step, paths.namespace, join(state, 'created'))
  const file = (name: string) => join(paths.configuration, name)
  const containerd = ensureFile(file('containerd.toml'), containerdConfiguration(paths, pause.reference))
  ensureFile(join(paths.cni, cniConfigurationFile), cniConfiguration(node))
  step.show('containerd')
  await ensureProcess(directories, {
    name: `containerd-${node.name}`,
    command: inNamespace(paths.namespace, [
      join(binaries.containerd, 'containerd'),
      '--config',
      file('containerd.toml'),
    ]),
    environment: { PATH: `${binaries.containerd}:/usr/sbin:/usr/bin:/sbin:/bin` },
    inputs: [containerd],
  })
  await untilSucceeds(step, [...ctr(binaries, paths), 'version'], `containerd of ${node.name}`)
}

/** Imports the images into a node's containerd, and starts its kubelet. */
export async function ensureNode(
  step: Step,
  directories: ProcessDirectories,
  state: string,
  node: NodeAddresses,
  binaries: Binaries,
  pki: Pki,
  server: string,
  images: readonly Image[],
): Promise<void> {
  const paths = nodePaths(state, node.name)
  const file = (name: string) => join(paths.configuration, name)
  await importImages(step, binaries, paths, images)

  step.show('kubelet')
  const kubelet = ensureFile(file('kubelet.yaml'), kubeletConfiguration(node, paths, pki))
  ensureFile(file('kubeconfig'), renderKubeconfig(pki, server, node.name), 0o600)
  await ensureProcess(directories, {
    name: `kubelet-${node.name}`,
    command: inNamespace(paths.namespace, [
      join(binaries.kubernetes, 'kubelet'),
      `--config=${file('kubelet.yaml')}`,
      `--kubeconfig=${file('kubeconfig')}`,
      `--hostname-override=${node.name}`,
      `--node-ip=${[node.address, node.ipv6?.address].filter((one) => one !== undefined).join()}`,
      `--root-dir=${kubeletRoot}`,
    ]),
    environment: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
    inputs: [kubelet],
  })
  await untilSettled(directories, `kubelet-${node.name}`)
}

/** A `ctr` command for a node's containerd, in the namespace of Kubernetes. */
function ctr(binaries: Binaries, paths: NodePaths): string[] {
  return [join(binaries.containerd, 'ctr'), '--address', paths.socket, '--namespace', 'k8s.io']
}

/** containerd's and runc's state of running containers is not valid after a reboot; usually it is in a tmpfs. */
function removeStateOfLastBoot(paths: NodePaths): void {
  const mark = join(paths.run, 'boot')
  if (existsSync(mark) && readFileSync(mark, 'utf8') === bootId()) return
  rmSync(paths.run, { recursive: true, force: true })
  mkdirSync(paths.run, { recursive: true })
  writeFileSync(mark, bootId())
}

/** Imports the missing images into containerd, without layers that it already has. */
export async function importImages(
  step: Step,
  binaries: Binaries,
  paths: NodePaths,
  images: readonly Image[],
): Promise<void> {
  const present = new Set((await step.run([...ctr(binaries, paths), 'images', 'list', '--quiet'])).split('\n'))
  const missing = images.filter((image) => !present.has(image.reference))
  for (const [index, image] of missing.entries()) {
    step.show(`image ${index + 1} of ${missing.length}: ${image.name}`)
    await importImage(step, binaries, paths, image)
  }
}

async function importImage(step: Step, binaries: Binaries, paths: NodePaths, image: Image): Promise<void> {
  const manifest = findManifest(image.layout, image.reference)
  if (manifest === undefined) throw new Error(`${image.layout} has no ${image.reference}`)
  const store = join(paths.containerd, 'io.containerd.content.v1.content')
  const wanted = digestsOf(image.layout, manifest).filter((digest) => !existsSync(blobPath(store, digest)))
  const annotations = { 'io.containerd.image.name': image.reference }
  const index = { schemaVersion: 2, manifests: [{ ...manifest, annotations }] }
  const staging = join(paths.run, 'import')
  rmSync(staging, { recursive: true, force: true })
  mkdirSync(staging, { recursive: true })
  writeFileSync(join(staging, 'index.json'), JSON.stringify(index))
  writeFileSync(join(staging, 'oci-layout'), JSON.stringify({ imageLayoutVersion: '1.0.0' }))
  const files = wanted.map((each) => `blobs/${each.replace(':', '/')}`)
  const archive = join(staging, 'image.tar')
  await step.run(['tar', '-cf', archive, '-C', staging, 'oci-layout', 'index.json', '-C', image.layout, ...files])
  await step.run([...ctr(binaries, paths), 'images', 'import', '--local', archive])
  rmSync(staging, { recursive: true })
}

/** kube-apiserver is ready after 4 s; on a host with a load of 20, 30 s were not enough. */
const deadlineMs = 180_000

/** Waits until a command succeeds. */
export async function untilSucceeds(step: Step, command: readonly string[], what: string): Promise<void> {
  const deadline = Date.now() + deadlineMs
  while ((await attempt(command, { log: step.log })) === undefined) {
    if (Date.now() > deadline) throw new Error(`${what} does not respond`)
    await sleep(100)
  }
}
