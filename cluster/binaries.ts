import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'

import { filesBelow, keyOf, keyOfFiles } from './key.ts'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** A Go module whose `tool` directives are the programs; `cluster/NAME/go.mod` pins every version. */
interface Module {
  readonly name: string
  readonly programs: readonly string[]
  /** The name that `go build` gives to a program, if it differs. */
  readonly renamed?: Readonly<Record<string, string>>
  /** A directory of a required module, which is copied beside the programs. */
  readonly copied?: { readonly name: string; readonly module: string; readonly path: string }
  readonly flags: readonly string[]
  readonly environment: Readonly<Record<string, string>>
}

const kubernetesVersion = 'v1.36.3'
const versionFlags = [
  ['gitVersion', kubernetesVersion],
  ['gitMajor', '1'],
  ['gitMinor', '36'],
].map(([name, value]) => `-X k8s.io/component-base/version.${name}=${value}`)

const kubernetes: Module = {
  name: 'kubernetes',
  programs: ['etcd', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler', 'kube-proxy', 'kubelet', 'kubectl'],
  // The package of etcd's server is go.etcd.io/etcd/server.
  renamed: { etcd: 'server' },
  flags: ['-ldflags', ['-s -w', ...versionFlags].join(' ')],
  environment: {},
}
const containerd: Module = {
  name: 'containerd',
  programs: ['containerd', 'containerd-shim-runc-v2', 'ctr'],
  flags: ['-ldflags', '-s -w', '-tags', 'no_btrfs,no_zfs,no_devmapper'],
  environment: { CGO_ENABLED: '0' },
}
const coredns: Module = {
  name: 'coredns',
  programs: ['coredns'],
  flags: ['-ldflags', '-s -w'],
  environment: { CGO_ENABLED: '0' },
}
/** The storage of the tests: a CSI driver of our own, with the real controllers for it. */
const csi: Module = {
  name: 'csi',
  programs: ['csi-files', 'csi-provisioner', 'csi-resizer', 'csi-snapshotter', 'snapshot-controller'],
  copied: { name: 'crd', module: 'github.com/kubernetes-csi/external-snapshotter/client/v8', path: 'config/crd' },
  flags: ['-ldflags', '-s -w'],
  environment: { CGO_ENABLED: '0' },
}

/** Programs for tests, releases and benchmarks; `make up` does not need them. */
const tools = {
  // Connects pods to further networks.
  multus: { name: 'multus', programs: ['multus'], flags: ['-ldflags', '-s -w'], environment: { CGO_ENABLED: '0' } },
  // Enforces NetworkPolicies. This is K3s' version: of the original, the Go module proxy has 2.1.0 only, whose rules for
  // IPv6 name sets that do not exist.
  'kube-router': {
    name: 'kube-router',
    programs: ['kube-router'],
    flags: ['-ldflags', '-s -w'],
    environment: { CGO_ENABLED: '0' },
  },
  // Charts.
  helm: { name: 'helm', programs: ['helm'], flags: ['-ldflags', '-s -w'], environment: { CGO_ENABLED: '0' } },
  // Signs executables for macOS, which does not run unsigned ones.
  quill: { name: 'quill', programs: ['quill'], flags: ['-ldflags', '-s -w'], environment: { CGO_ENABLED: '0' } },
  // Acts as the kubelets of nodes that do not exist.
  kwok: { name: 'kwok', programs: ['kwok'], flags: ['-ldflags', '-s -w'], environment: { CGO_ENABLED: '0' } },
} satisfies Record<string, Module>

/** Directories with the programs. */
export interface Binaries {
  readonly kubernetes: string
  readonly containerd: string
  readonly coredns: string
}

/**
 * Finds the cluster's programs in KUBE_BIN_DIR if set, otherwise in the cache, otherwise builds them from Go modules
 * (about 7 minutes on two cores, once per version). KUBE_BIN_DIR must have all programs of Kubernetes; containerd and
 * CoreDNS can come from the cache.
 */
export async function ensureBinaries(step: Step, settings: Settings): Promise<Binaries> {
  const own = settings.kubeBinDir
  if (own !== undefined && !hasAll(own, kubernetes)) {
    const missing = kubernetes.programs.filter((program) => !existsSync(join(own, program)))
    throw new Error(`KUBE_BIN_DIR=${own} does not contain ${missing.join(', ')}`)
  }
  return {
    kubernetes: await ensureModule(step, settings, kubernetes),
    containerd: await ensureModule(step, settings, containerd),
    coredns: await ensureModule(step, settings, coredns),
  }
}

/** Finds the programs for the storage of the tests in KUBE_BIN_DIR or the cache, or builds them from Go modules. */
export async function ensureCsi(step: Step, settings: Settings): Promise<string> {
  return ensureModule(step, settings, csi)
}

/** Finds a tool in the cache, or builds it from Go modules, and returns its path. */
export async function ensureTool(step: Step, settings: Settings, name: keyof typeof tools): Promise<string> {
  return join(await ensureModule(step, settings, tools[name]), name)
}

/** A tool that `ensureTool` has found or built before. */
export function knownTool(settings: Settings, name: keyof typeof tools): string | undefined {
  const directory = knownModule(settings, tools[name])
  return directory === undefined ? undefined : join(directory, name)
}

/** An existing kubectl of any version, in KUBE_BIN_DIR or the cache. */
export function knownKubectl({ kubeBinDir, cache }: Settings): string | undefined {
  const built = join(cache, 'bin')
  const directories = [
    ...(kubeBinDir === undefined ? [] : [kubeBinDir]),
    ...(existsSync(built) ? readdirSync(built).map((name) => join(built, name)) : []),
  ]
  return directories.map((directory) => join(directory, 'kubectl')).find((path) => existsSync(path))
}

/** The directory in the cache for a module at its current versions and flags. */
function moduleDirectory(settings: Settings, module: Module): string {
  const source = join(settings.checkout, 'cluster', module.name)
  const files = filesBelow(source, '', () => true)
  const key = keyOf(keyOfFiles(source, files), ...module.flags, JSON.stringify(module.environment))
  return join(settings.cache, 'bin', `${module.name}-${key}`)
}

async function ensureModule(step: Step, settings: Settings, module: Module): Promise<string> {
  const known = knownModule(settings, module)
  if (known !== undefined) return known
  const directory = moduleDirectory(settings, module)
  await build(step, settings, module, directory)
  return directory
}

function knownModule(settings: Settings, module: Module): string | undefined {
  const directories = [settings.kubeBinDir ?? [], moduleDirectory(settings, module)].flat()
  return directories.find((directory) => hasAll(directory, module))
}

async function build(step: Step, settings: Settings, module: Module, directory: string): Promise<void> {
  const unfinished = `${directory}.unfinished`
  mkdirSync(unfinished, { recursive: true })
  step.show(`building ${module.name} from Go modules`)
  let packages = 0
  const inModule = {
    directory: join(settings.checkout, 'cluster', module.name),
    environment: { GOFLAGS: '-buildvcs=false -mod=readonly', ...module.environment },
  }
  await step.run(['go', 'build', '-v', '-trimpath', ...module.flags, '-o', `${unfinished}/`, 'tool'], {
    ...inModule,
    onLine: () => step.show(`building ${module.name} from Go modules: ${++packages} packages`),
  })
  for (const [name, built] of Object.entries(module.renamed ?? {}))
    renameSync(join(unfinished, built), join(unfinished, name))
  if (module.copied !== undefined) {
    const { name, module: from, path } = module.copied
    const source = (await step.run(['go', 'list', '-m', '-f', '{{.Dir}}', from], inModule)).trim()
    cpSync(join(source, path), join(unfinished, name), { recursive: true })
  }
  rmSync(directory, { recursive: true, force: true })
  renameSync(unfinished, directory)
  step.show('built from Go modules')
}

function hasAll(directory: string, module: Module): boolean {
  const names = [...module.programs, ...(module.copied === undefined ? [] : [module.copied.name])]
  return names.every((name) => existsSync(join(directory, name)))
}
