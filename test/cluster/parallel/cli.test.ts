import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

import { kubeconfigAccess } from '../../../runtime/access.ts'
import { createKubeClient, type KubeClient } from '../../../runtime/kube.ts'
import { examples, presetsIn } from '../../cli/examples.ts'
import { samplePairs } from '../../cli/pairs.ts'
import { resultOfCluster, resultOfOutput, withoutIdentity, type Result } from '../../cli/persisted.ts'
import { runVm } from '../../cli/world.ts'
import { openCluster, type TestCluster } from '../cluster.ts'

/**
 * Offline completion equals that of the installed webhooks. VMs are created as dry runs: they pass all of admission,
 * and the response is what would be stored. The replicas of the webhooks receive a preset at different times, so a VM
 * that differs is tried again for a moment.
 */
let cluster: TestCluster
let kube: KubeClient
let folder: string
beforeAll(async () => {
  cluster = await openCluster()
  kube = createKubeClient({ access: await kubeconfigAccess({ environment: process.env }), userAgent: 'cli-test' })
  folder = mkdtempSync(join(tmpdir(), 'virtset-cli-'))
})
afterAll(async () => {
  await kube?.close()
  await cluster?.close()
  if (folder !== undefined) rmSync(folder, { recursive: true })
})

const createDry = (vm: object): Promise<Result> => {
  const path = `/apis/virtset.io/v1alpha1/namespaces/${cluster.namespace}/virtualmachines?dryRun=All`
  return resultOfCluster(kube.request('POST', path, vm))
    .then(withoutIdentity)
    .then(withoutNodes)
}

/** Offline, there are no nodes to name. */
const withoutNodes = (result: Result): Result =>
  'refusal' in result ? { refusal: result.refusal.replaceAll(/ \(nodes? .+? do(es)? not have [^()]+\)/g, '') } : result

async function completeOffline(words: readonly string[]): Promise<Result> {
  return withoutIdentity(
    resultOfOutput(await runVm(['complete', ...words, '-n', cluster.namespace, '-o', 'json', '-q'])),
  )
}

const patience = { timeout: 240_000, interval: 200 }

const presetFlags = (files: readonly string[]): string[] => files.flatMap((file) => ['--presets', file])

test.each(examples.map((example) => [example.name, example] as const))(
  '%s is completed offline as the cluster stores it, with the presets of its folder',
  async (_, { file, vm, presets }) => {
    const objects = presetsIn(presets)
    if (objects.length > 0) await cluster.apply(...objects)
    const offline = await completeOffline([file, ...presetFlags(presets.length === 0 ? [file] : presets)])
    await expect.poll(() => createDry(vm), patience).toEqual(offline)
    expect('refusal' in offline).toBe(file.includes('/refused/'))
    await cluster.kubectl('delete', 'vmp', '--all')
  },
)

test('so do generated VMs and presets', async () => {
  const { vms, presets } = samplePairs(cluster.namespace, 200, 40)
  const ofCluster = presets.filter(({ kind }) => kind === 'ClusterVirtualMachinePreset')
  const file = join(folder, 'presets.json')
  writeFileSync(file, JSON.stringify({ kind: 'List', items: presets }))
  try {
    await cluster.apply(...presets)
    const outcomes = { completed: 0, refused: 0 }
    for (const vm of vms) {
      const path = join(folder, `${vm.metadata.name}.json`)
      writeFileSync(path, JSON.stringify(vm))
      const offline = await completeOffline([path, '--presets', file])
      await expect.poll(() => createDry(vm), patience).toEqual(offline)
      if ('refusal' in offline) outcomes.refused++
      else outcomes.completed++
    }
    expect(outcomes.completed).toBeGreaterThan(vms.length / 4)
    expect(outcomes.refused).toBeGreaterThan(vms.length / 20)
  } finally {
    await cluster.kubectl('delete', 'cvmp', ...ofCluster.map(({ metadata }) => metadata.name ?? ''))
  }
})
