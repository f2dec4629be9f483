import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

import { attempt } from './command.ts'
import { examplesOverlay, published } from './install.ts'
import type { Image } from './images.ts'
import type { Step } from './progress.ts'
import type { Settings } from './settings.ts'

/** The example VM, one that every preset selects, and one with a disk from a container image. */
const exampleVms = ['testvm', 'small-with-video', 'from-image'] as const
/** A preset that has not reached the webhooks by then is not going to. */
const presetDeadlineMs = 60_000

/** The path of an example's manifest. */
export function exampleFile(settings: Settings, name: string): string {
  return join(settings.checkout, 'manifests/examples', `${name}.yaml`)
}

/**
 * Applies the presets and the disk's target, then the VMs, and waits until they run. A VM that has ended or has changed
 * is created again.
 */
export async function applyExamples(
  step: Step,
  settings: Settings,
  kubectl: readonly string[],
  images: readonly Image[],
): Promise<void> {
  const directory = join(settings.state, 'examples')
  mkdirSync(directory, { recursive: true })
  const manifests = relative(directory, join(settings.checkout, 'manifests/examples'))
  writeFileSync(join(directory, 'kustomization.yaml'), examplesOverlay(manifests, images))
  await step.run([...kubectl, 'apply', '--server-side', '--force-conflicts', '-k', directory])
  step.show('waiting for the iSCSI target')
  await step.run([...kubectl, 'rollout', 'status', 'deployment/iscsi-demo-target', '--timeout=60s'])
  await untilPresetsAreKnown(step, kubectl)
  for (const name of exampleVms) {
    const input = exampleManifest(settings, name, images)
    if (!(await isCurrent(step, kubectl, name, input))) {
      step.show(`${name} has ended or has changed: deleting it`)
      await step.run([...kubectl, 'delete', 'vm', name, '--ignore-not-found', '--timeout=60s'])
    }
    await step.run([...kubectl, 'apply', '--server-side', '-f', '-'], { input })
  }
  for (const name of exampleVms) {
    step.show(`waiting for ${name}`)
    await step.run([...kubectl, 'wait', `vm/${name}`, '--for=jsonpath={.status.phase}=Running', '--timeout=90s'])
  }
  step.show(`${exampleVms.join(', ')} run`)
}

/** Whether a VM has not ended and can have this manifest: a spec is immutable, and the images may have changed. */
async function isCurrent(step: Step, kubectl: readonly string[], name: string, input: string): Promise<boolean> {
  const { log } = step
  const phase = await attempt([...kubectl, 'get', 'vm', name, '-o', 'jsonpath={.status.phase}'], { log })
  if (phase === 'Succeeded' || phase === 'Failed') return false
  const dryRun = [...kubectl, 'apply', '--server-side', '--dry-run=server', '-f', '-']
  return (await attempt(dryRun, { input, log })) !== undefined
}

/** The manifest of an example VM with the images of this cluster. */
function exampleManifest(settings: Settings, name: string, images: readonly Image[]): string {
  const text = readFileSync(exampleFile(settings, name), 'utf8')
  return images.reduce((all, image) => withImage(all, image), text)
}

const withImage = (text: string, { name, reference }: Image): string =>
  text.replaceAll(new RegExp(`${published}/${name}:[\\w.-]+`, 'g'), reference)

/** Presets reach the webhooks through a watch. A dry run shows whether they have arrived. */
async function untilPresetsAreKnown(step: Step, kubectl: readonly string[]): Promise<void> {
  step.show('waiting for the webhooks to receive the presets')
  const deadline = Date.now() + presetDeadlineMs
  const dryRun = [...kubectl, 'create', '--dry-run=server', '-o', 'json', '-f', '-']
  const probe = {
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { generateName: 'probe-', labels: { size: 'small', video: 'yes' } },
    spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
  }
  for (;;) {
    const vm = await step.run(dryRun, { input: JSON.stringify(probe) })
    if (['serials', 'acpi', 'videos', 'topology'].every((key) => vm.includes(`"${key}"`))) return
    if (Date.now() > deadline) throw new Error(`the presets are not injected into a new VM: ${vm}`)
    await sleep(200)
  }
}
