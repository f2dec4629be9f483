import { join } from 'node:path'

import { ensureBinaries, knownKubectl } from './binaries.ts'
import { attempt } from './command.ts'
import { ensureImages, pushImage } from './images.ts'
import { install } from './install.ts'
import { ensurePackages, type machinePackages } from './packages.ts'
import type { Progress, Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** What building and pushing needs of the machine: nothing that would run a cluster. */
const buildPackages = [
  'mmdebstrap',
  'buildah',
  'nasm',
  'ca-certificates',
  'util-linux',
] as const satisfies readonly (keyof typeof machinePackages)[]

/** Where to install, and what the images are called there. */
export interface Destination {
  readonly kubeconfig: string
  /** Registry and path, without a slash at the end: `registry.example.org/virtset`. */
  readonly imagePrefix: string
}

/** Where the user wants it. @throws with what is to be set, all of it */
export function destinationOf({ kubeconfig, imagePrefix }: Settings): Destination {
  if (kubeconfig !== undefined && imagePrefix !== undefined)
    return { kubeconfig, imagePrefix: imagePrefix.replace(/\/+$/, '') }
  throw new Error(
    [
      'make install puts virtset on a cluster that you have:',
      ...(kubeconfig === undefined ? ['  KUBECONFIG is not set: the file that names the cluster'] : []),
      ...(imagePrefix === undefined
        ? ['  IMAGE_PREFIX is not set: where its nodes can pull images from, as registry.example.org/virtset']
        : []),
    ].join('\n'),
  )
}

/** Builds the images, pushes them, and installs virtset on the user's own cluster. Nothing is started here. */
export async function installElsewhere(progress: Progress, settings: Settings): Promise<void> {
  const { imagePrefix } = destinationOf(settings)
  await progress.step('System packages', 'look whether apt-get works here, as root', (step) =>
    ensurePackages(step, buildPackages),
  )
  const kubectl = await progress.step('kubectl', 'put one into PATH', (step) => findKubectl(step, settings))
  await progress.step('The cluster answers', `${kubectl} version; is KUBECONFIG the right one?`, async (step) => {
    step.say((await step.run([kubectl, 'config', 'current-context'])).trim())
    await step.run([kubectl, 'get', '--raw', '/readyz', '--request-timeout=15s'])
  })
  const built = await progress.step('Images', 'look whether a Debian mirror and the npm registry answer', (step) =>
    ensureImages(step, settings),
  )
  const pushed = await progress.step(`Push to ${imagePrefix}`, 'is REGISTRY_AUTH_FILE right?', async (step) => {
    const images = []
    for (const [index, image] of built.entries()) {
      step.say(`${index + 1} of ${built.length}: ${image.name}`)
      images.push(await pushImage(step, settings, image, imagePrefix))
    }
    step.say('')
    return images
  })
  await progress.step('virtset', `${kubectl} -n virtset-system describe pods`, (step) =>
    install(step, settings, [kubectl], pushed, join(settings.cache, 'install')),
  )
}

/** The kubectl of KUBE_BIN_DIR, of the cache, or of PATH; if there is none it is built. */
async function findKubectl(step: Step, settings: Settings): Promise<string> {
  const known = knownKubectl(settings)
  if (known !== undefined) return known
  if ((await attempt(['kubectl', 'version', '--client'], { log: step.log })) !== undefined) return 'kubectl'
  return join((await ensureBinaries(step, settings)).kubernetes, 'kubectl')
}
