import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { localCaches } from './local.ts'

let folder: string
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'virtset-presets-'))
  const preset = (kind: string, name: string, spec: string) =>
    `apiVersion: virtset.io/v1alpha1\nkind: ${kind}\nmetadata: {name: ${name}}\nspec: ${spec}\n`
  await writeFile(
    join(folder, 'a.yaml'),
    `${preset('VirtualMachinePreset', 'one', '{selector: {}}')}---\n${preset('ClusterVirtualMachinePreset', 'two', '{selector: {}}')}`,
  )
  await writeFile(
    join(folder, 'b.json'),
    JSON.stringify({ kind: 'VirtualMachinePreset', metadata: { name: 'bad' }, spec: 1 }),
  )
  await writeFile(join(folder, 'c.yaml'), 'kind: Pod\n')
  await writeFile(join(folder, 'README.md'), 'no preset')
})
afterAll(() => rm(folder, { recursive: true }))

test('reads every preset of a folder, and keeps broken ones apart', async () => {
  const caches = await localCaches(folder)
  const { candidates, quarantined } = caches
  expect([candidates.size(), [...quarantined.keys()]]).toEqual([2, ['default/bad']])
  expect(
    candidates
      .select({}, caches.namespace('default'))
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual(['default/one', 'two'])
})
