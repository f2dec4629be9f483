import type { Step } from './progress.ts'
import { attempt } from './command.ts'

/** Debian packages that the cluster's machine needs, and what for. */
export const machinePackages = {
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

/** What tests need beside it. */
export const testPackages = {
  prometheus: 'promtool, for the tests of the alerts',
  bash: 'completion of kubectl vm, as for the next two',
  zsh: 'the same',
  fish: 'the same',
} as const

/** Installs the packages that are missing; asks the package index only then. Needs root and Debian or a relative of it. */
export async function ensurePackages(step: Step, names: readonly string[]): Promise<void> {
  const missing: string[] = []
  for (const name of names) if (!(await isInstalled(name))) missing.push(name)
  if (missing.length === 0) return step.say('all there')
  // A run level at which no package starts the daemon that it brings.
  const environment = { DEBIAN_FRONTEND: 'noninteractive', RUNLEVEL: '1' }
  step.say('reading the package index')
  await step.run(['apt-get', 'update', '-q'], { environment })
  step.say(`installing ${missing.join(' ')}`)
  await step.run(['apt-get', 'install', '-y', '-q', '--no-install-recommends', ...missing], { environment })
  step.say(`installed ${missing.join(' ')}`)
}

async function isInstalled(name: string): Promise<boolean> {
  const status = await attempt(['dpkg-query', '--show', '--showformat=${Status}', name])
  return status === 'install ok installed'
}
