import type { Step } from './progress.ts'
import { attempt } from './command.ts'

/** Debian packages that the host of the cluster needs, with their purpose. */
export const hostPackages = {
  mmdebstrap: 'root file systems and the base of images',
  buildah: 'images from Containerfiles',
  runc: 'containers',
  'containernetworking-plugins': 'the network of pods',
  catatonit: 'the pause image',
  iproute2: 'addresses of nodes',
  nftables: 'services (kube-proxy) and masquerading',
  nasm: "the example's guest",
  'ca-certificates': 'downloads',
  'util-linux': 'unshare, mount',
} as const

/** Additional packages for the tests. */
export const testPackages = {
  prometheus: 'promtool, for the tests of the alerts',
  chromium: 'the page of kubectl vm ui',
  bash: 'completion of kubectl vm, as for the next two',
  zsh: 'the same',
  fish: 'the same',
  bsdutils: 'script: a pseudo-terminal for kubectl vm console',
  xfsprogs: 'volumes of the storage of the tests',
  e2fsprogs: 'debugfs: what a guest wrote to such a volume',
  iptables: 'rules of kube-router, which enforces NetworkPolicies',
  ipset: 'the same',
  'openssh-client': 'kubectl vm ssh and scp',
} as const

/** Installs missing packages; reads the package index only then. Requires root on Debian or a derivative. */
export async function ensurePackages(step: Step, names: readonly string[]): Promise<void> {
  const missing: string[] = []
  for (const name of names) if (!(await isInstalled(name))) missing.push(name)
  if (missing.length === 0) return step.show('all installed')
  // At this run level, no package starts its daemon.
  const environment = { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  step.show('reading the package index')
  await step.run(['apt-get', 'update', '-q'], { environment })
  step.show(`installing ${missing.join(' ')}`)
  await step.run(['apt-get', 'install', '-y', '-q', '--no-install-recommends', ...missing], { environment })
  step.show(`installed ${missing.join(' ')}`)
}

async function isInstalled(name: string): Promise<boolean> {
  const status = await attempt(['dpkg-query', '--show', '--showformat=${Status}', name])
  return status === 'install ok installed'
}
