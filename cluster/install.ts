import { mkdirSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'

import type { Image } from './images.ts'
import { untilAnswers } from './node.ts'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** The names of images as `manifests/` has them for everybody. */
const published = 'ghcr.io/virtset'
const kinds = [
  'virtualmachines',
  'virtualmachinepresets',
  'clustervirtualmachinepresets',
  'virtualmachineconfigs',
  'virtualmachinegroups',
  'nodeprofiles',
] as const

/** A kustomization over `manifests/` that names other images; controller and policy get the launcher's from the handler's DaemonSet. */
function overlay(manifests: string, images: readonly Image[]): string {
  const used = images.filter(({ name }) => name === 'virtset' || name === 'launcher')
  return `apiVersion: kustomize.config.k8s.io/v1beta1
kind: Kustomization
resources: [${manifests}]
images:
${used.map(imageEntry).join('\n')}
replacements:
- source: {kind: DaemonSet, name: virtset-handler, fieldPath: "spec.template.spec.containers.[name=profile].image"}
  targets:
  - select: {kind: Deployment, name: virtset-controller}
    fieldPaths: ["spec.template.spec.containers.[name=controller].env.[name=LAUNCHER_IMAGE].value"]
  - select: {kind: ValidatingAdmissionPolicy, name: virtset-controller-pods}
    fieldPaths: ["spec.variables.[name=image].expression"]
    options: {delimiter: '"', index: 1}
`
}

/** The same for the examples. */
export function examplesOverlay(manifests: string, images: readonly Image[]): string {
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
 * Installs virtset with these images, and waits until all of it runs. What is as it should be stays untouched. What kubectl is given is
 * written to a directory.
 */
export async function install(
  step: Step,
  settings: Settings,
  kubectl: readonly string[],
  images: readonly Image[],
  directory: string,
): Promise<void> {
  mkdirSync(directory, { recursive: true })
  const manifests = relative(directory, join(settings.checkout, 'manifests'))
  writeFileSync(join(directory, 'kustomization.yaml'), overlay(manifests, images))
  await step.run([...kubectl, 'apply', '--server-side', '--force-conflicts', '-k', directory])
  for (const kind of kinds) {
    step.say(`waiting for ${kind}`)
    // It fails at once on a definition that has no conditions yet, hence again and again.
    const wait = [...kubectl, 'wait', '--for=condition=Established', `crd/${kind}.virtset.io`, '--timeout=30s']
    await untilAnswers(step, wait, `the kind ${kind}`)
  }
  for (const workload of [
    'deployment/virtset-webhooks',
    'deployment/virtset-controller',
    'daemonset/virtset-handler',
  ]) {
    step.say(`waiting for ${workload}`)
    await step.run([...kubectl, '-n', 'virtset-system', 'rollout', 'status', workload, '--timeout=120s'])
  }
  // Until the aggregator knows that the webhooks answer, no VM can be created.
  const apiService = 'apiservice/v1alpha1.subresources.virtset.io'
  await step.run([...kubectl, 'wait', '--for=condition=Available', apiService, '--timeout=120s'])
  step.say('')
}

function imageEntry({ name, reference }: Image): string {
  const colon = reference.lastIndexOf(':')
  return `- {name: ${published}/${name}, newName: ${reference.slice(0, colon)}, newTag: "${reference.slice(colon + 1)}"}`
}
