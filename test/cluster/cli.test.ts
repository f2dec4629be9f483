import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'

import { kubeconfigAccess } from '../../runtime/access.ts'
import { createKubeClient, type KubeClient } from '../../runtime/kube.ts'
import { examples, presetsIn } from '../cli/examples.ts'
import { samplePairs } from '../cli/pairs.ts'
import { resultOfCluster, resultOfSaid, withoutIdentity, type Result } from '../cli/persisted.ts'
import { say } from '../cli/world.ts'
import { openCluster, type TestCluster } from './cluster.ts'

/**
 * Offline is online, on the cluster with the webhooks as they are installed. VMs are created dry: they pass all of admission, and what would be stored
 * comes back. The webhooks' replicas hear of a preset one after the other, so a VM that differs is asked for again for a moment.
 */
let cluster: TestCluster
let kube: KubeClient
let folder: string
beforeAll(async () => {
  cluster = await openCluster()
  kube = createKubeClient({ access: await kubeconfigAccess(), userAgent: 'cli-test' })
  folder = mkdtempSync(join(tmpdir(), 'virtset-cli-'))
})
afterAll(async () => {
  await kube?.close()
  await cluster?.close()
  if (folder !== undefined) rmSync(folder, { recursive: true })
})

const createDry = (machine: object): Promise<Result> => {
  const path = `/apis/virtset.io/v1alpha1/namespaces/${cluster.namespace}/virtualmachines?dryRun=All`
  return resultOfCluster(kube.request('POST', path, machine))
    .then(withoutIdentity)
    .then(withoutNodes)
}

/** Offline there are no nodes to be named. */
const withoutNodes = (result: Result): Result =>
  'refusal' in result ? { refusal: result.refusal.replaceAll(/ \(nodes? .+? lacks? [^()]+\)/g, '') } : result

async function completeOffline(words: readonly string[]): Promise<Result> {
  return withoutIdentity(resultOfSaid(await say(['complete', ...words, '-n', cluster.namespace, '-o', 'json', '-q'])))
}

const patience = { timeout: 20_000, interval: 200 }

const presetFlags = (files: readonly string[]): string[] => files.flatMap((file) => ['--presets', file])

test.each(examples.map((example) => [example.name, example] as const))(
  '%s comes out as the cluster stores it, with the presets of its folder',
  async (_, { file, machine, presets }) => {
    const objects = presetsIn(presets)
    if (objects.length > 0) await cluster.apply(...objects)
    const offline = await completeOffline([file, ...presetFlags(presets.length === 0 ? [file] : presets)])
    await expect.poll(() => createDry(machine), patience).toEqual(offline)
    expect('refusal' in offline).toBe(file.includes('/refused/'))
    await cluster.kubectl('delete', 'vmp', '--all')
  },
)

test('generated VMs and presets do, too', async () => {
  const { machines, presets } = samplePairs(cluster.namespace, 200, 40)
  const ofCluster = presets.filter(({ kind }) => kind === 'ClusterVirtualMachinePreset')
  const file = join(folder, 'presets.json')
  writeFileSync(file, JSON.stringify({ kind: 'List', items: presets }))
  try {
    await cluster.apply(...presets)
    const outcomes = { completed: 0, refused: 0 }
    for (const machine of machines) {
      const path = join(folder, `${machine.metadata.name}.json`)
      writeFileSync(path, JSON.stringify(machine))
      const offline = await completeOffline([path, '--presets', file])
      await expect.poll(() => createDry(machine), patience).toEqual(offline)
      if ('refusal' in offline) outcomes.refused++
      else outcomes.completed++
    }
    expect(outcomes.completed).toBeGreaterThan(machines.length / 4)
    expect(outcomes.refused).toBeGreaterThan(machines.length / 20)
  } finally {
    await cluster.kubectl('delete', 'cvmp', ...ofCluster.map(({ metadata }) => metadata.name ?? ''))
  }
})
