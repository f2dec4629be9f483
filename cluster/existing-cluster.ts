import { join } from 'node:path'

import { ensureBinaries, knownKubectl } from './binaries.ts'
import { attempt } from './command.ts'
import { ensureImages, pushImage } from './images.ts'
import { install } from './install.ts'
import { ensurePackages, type hostPackages } from './packages.ts'
import type { Progress, Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** Debian packages for building and pushing images, without those for running a cluster. */
export const buildPackages = [
  'mmdebstrap',
  'buildah',
  'nasm',
  'ca-certificates',
  'util-linux',
] as const satisfies readonly (keyof typeof hostPackages)[]

/** The cluster on which to install, and the prefix of the images' names. */
export interface Destination {
  readonly kubeconfig: string
  /** Registry and path, without a slash at the end: `registry.example.org/virtset`. */
  readonly imagePrefix: string
}

/** @throws an error that names all variables that must be set */
export function destinationOf({ kubeconfig, imagePrefix }: Settings): Destination {
  if (kubeconfig !== undefined && imagePrefix !== undefined)
    return { kubeconfig, imagePrefix: imagePrefix.replace(/\/+$/, '') }
  throw new Error(
    [
      'make install installs virtset on an existing cluster:',
      ...(kubeconfig === undefined ? ['  KUBECONFIG is not set: set it to the kubeconfig of the cluster'] : []),
      ...(imagePrefix === undefined
        ? [
            '  IMAGE_PREFIX is not set: set it to a registry from which its nodes can pull, e.g. registry.example.org/virtset',
          ]
        : []),
    ].join('\n'),
  )
}

/** Builds the images, pushes them, and installs virtset on the user's cluster. Starts nothing on this host. */
export async function installOnExistingCluster(progress: Progress, settings: Settings): Promise<void> {
  const { imagePrefix } = destinationOf(settings)
  await progress.step('System packages', 'check that apt-get works as root', (step) =>
    ensurePackages(step, buildPackages),
  )
  const kubectl = await progress.step('kubectl', 'put kubectl into PATH', (step) => findKubectl(step, settings))
  await progress.step('Connection to the cluster', `check KUBECONFIG with ${kubectl} version`, async (step) => {
    step.show((await step.run([kubectl, 'config', 'current-context'])).trim())
    await step.run([kubectl, 'get', '--raw', '/readyz', '--request-timeout=15s'])
  })
  const built = await progress.step('Images', 'check that a Debian mirror and the npm registry respond', (step) =>
    ensureImages(step, settings),
  )
  const pushed = await progress.step(`Push to ${imagePrefix}`, 'check REGISTRY_AUTH_FILE', async (step) => {
    const images = []
    for (const [index, image] of built.entries()) {
      step.show(`${index + 1} of ${built.length}: ${image.name}`)
      images.push(await pushImage(step, settings, image, imagePrefix))
    }
    step.show('')
    return images
  })
  await progress.step('virtset', `${kubectl} -n virtset-system describe pods`, (step) =>
    install(step, settings, [kubectl], pushed, join(settings.cache, 'install')),
  )
}

/** Finds kubectl in KUBE_BIN_DIR, the cache or PATH, or builds it. */
export async function findKubectl(step: Step, settings: Settings): Promise<string> {
  const known = knownKubectl(settings)
  if (known !== undefined) return known
  if ((await attempt(['kubectl', 'version', '--client'], { log: step.log })) !== undefined) return 'kubectl'
  return join((await ensureBinaries(step, settings)).kubernetes, 'kubectl')
}
