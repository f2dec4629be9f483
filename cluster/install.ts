import { existsSync, mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'

import type { Image } from './images.ts'
import { untilSucceeds } from './node.ts'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** The prefix of the published images, as in `manifests/`. */
export const published = 'ghcr.io/virtset'
const kinds = [
  'virtualmachines',
  'virtualmachinepresets',
  'clustervirtualmachinepresets',
  'virtualmachineconfigs',
  'virtualmachinegroups',
  'virtualmachinesnapshots',
  'nodeprofiles',
  'nodecapabilitysets',
  'presettargets',
  'objectpresets',
  'clusterobjectpresets',
] as const

/** An image's short name, and the reference with a tag or digest by which a cluster pulls it. */
type NamedImage = Pick<Image, 'name' | 'reference'>

/**
 * A kustomization of `manifests/` with these images. The controller and the policy get the launcher image from the
 * DaemonSet with the container `profile`.
 */
export function overlay(
  manifests: string,
  images: readonly NamedImage[],
  daemonSet: 'virtset-profile' | 'virtset-handler' = 'virtset-profile',
): string {
  const used = images.filter(({ name }) => name === 'virtset' || name === 'launcher')
  return `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [${manifests}]
images:
${used.map(imageEntry).join('\n')}
replacements:
- source: {kind: DaemonSet, name: ${daemonSet}, fieldPath: "spec.template.spec.containers.[name=profile].image"}
  targets:
  - select: {kind: Deployment, name: virtset-controller}
    fieldPaths: ["spec.template.spec.containers.[name=controller].env.[name=LAUNCHER_IMAGE].value"]
  - select: {kind: ValidatingAdmissionPolicy, name: virtset-controller-pods}
    fieldPaths: ["spec.variables.[name=image].expression"]
    options: {delimiter: '"', index: 1}
`
}

/** The overlay with the agent that runs network plugins. */
export const networkPlugins = 'manifests/overlays/network-plugins'

const patch = (cpu: string) =>
  JSON.stringify([{ op: 'replace', path: '/spec/template/spec/containers/0/resources/requests/cpu', value: cpu }])

/** Appended to the kustomization of `make up`: a node with few CPUs must have room for the tests' VMs. */
export const modestRequests = `patches:
${[
  ['webhooks', '100m'],
  ['controller', '50m'],
  ['handler', '50m'],
]
  .map(([name = '', cpu = '']) => `- {target: {name: virtset-${name}, group: apps}, patch: '${patch(cpu)}'}\n`)
  .join('')}`

/** A kustomization of the examples with other images. */
export function examplesOverlay(manifests: string, images: readonly NamedImage[]): string {
  return `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [${manifests}]
images:
${images
  .filter(({ name }) => name === 'iscsi-demo')
  .map(imageEntry)
  .join('\n')}
`
}

/**
 * Installs virtset with these images, and waits until it runs.
 * @param directory for the generated kustomization
 * @param addition text to append to the kustomization
 * @param folder of the manifests or an overlay, in the checkout
 */
export async function install(
  step: Step,
  settings: Settings,
  kubectl: readonly string[],
  images: readonly Image[],
  directory: string,
  addition = '',
  folder = 'manifests',
): Promise<void> {
  writeKustomization(settings, images, directory, addition, folder)
  await step.run([...kubectl, 'apply', '--server-side', '--force-conflicts', '-k', directory])
  for (const kind of kinds) {
    step.show(`waiting for ${kind}`)
    // `kubectl wait` fails immediately on a CRD without conditions, hence the retries.
    const wait = [...kubectl, 'wait', '--for=condition=Established', `crd/${kind}.virtset.io`, '--timeout=30s']
    await untilSucceeds(step, wait, `the kind ${kind}`)
  }
  for (const workload of [
    'deployment/virtset-webhooks',
    'deployment/virtset-controller',
    'daemonset/virtset-handler',
    'daemonset/virtset-profile',
    ...(folder === networkPlugins ? ['daemonset/virtset-network'] : []),
  ]) {
    step.show(`waiting for ${workload}`)
    await step.run([...kubectl, '-n', 'virtset-system', 'rollout', 'status', workload, '--timeout=120s'])
  }
  // VMs can be created only after the aggregator considers the webhooks available.
  const apiServices = ['admission', 'subresources', 'sessions'].map(
    (group) => `apiservice/v1alpha1.${group}.virtset.io`,
  )
  await step.run([...kubectl, 'wait', '--for=condition=Available', ...apiServices, '--timeout=120s'])
  step.show('')
}

/** Writes the kustomization that installs virtset with these images, followed by `addition`. */
export function writeKustomization(
  settings: Settings,
  images: readonly NamedImage[],
  directory: string,
  addition: string,
  folder = 'manifests',
): void {
  mkdirSync(directory, { recursive: true })
  const path = join(settings.checkout, 'manifests')
  // The upgrade test installs a version whose handler had this container.
  const daemonSet = existsSync(join(path, 'profile')) ? 'virtset-profile' : 'virtset-handler'
  const text = overlay(relative(directory, join(settings.checkout, folder)), images, daemonSet)
  writeFileSync(join(directory, 'kustomization.yaml'), text + addition)
}

function imageEntry({ name, reference }: NamedImage): string {
  const [newName, digest] = reference.split('@')
  if (digest !== undefined) return `- {name: ${published}/${name}, newName: ${newName}, digest: "${digest}"}`
  const colon = reference.lastIndexOf(':')
  return `- {name: ${published}/${name}, newName: ${reference.slice(0, colon)}, newTag: "${reference.slice(colon + 1)}"}`
}
