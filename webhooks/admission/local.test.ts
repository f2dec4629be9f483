import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createLogger } from '../../runtime/log.ts'
import { readCertificate, readInventory } from './local.ts'

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
  await writeFile(join(folder, 'd.yaml'), 'kind: [')
  await mkdir(join(folder, 'below'))
  const list = {
    kind: 'List',
    items: [{ kind: 'VirtualMachinePreset', metadata: { name: 'three' }, spec: { selector: {} } }],
  }
  await writeFile(join(folder, 'below/list.json'), JSON.stringify(list))
  await writeFile(join(folder, 'README.md'), 'no preset')
})
afterAll(() => rm(folder, { recursive: true }))

test('reads a certificate and its key', async () => {
  const names = ['c.yaml', 'README.md'].map((name) => join(folder, name))
  const [cert = '', key = ''] = names
  expect(await readCertificate(cert, key)).toEqual({ cert: 'kind: Pod\n', key: 'no preset' })
})

test('reads every preset of a folder and quarantines broken ones', async () => {
  const lines: unknown[] = []
  const write = (line: string) => lines.push(JSON.parse(line))
  const inventory = await readInventory(folder, createLogger({ process: 'test', to: { write } }))
  const { candidates, quarantined } = inventory
  expect([candidates.size(), [...quarantined.keys()]]).toEqual([3, ['default/bad']])
  expect(
    candidates
      .select({}, inventory.namespace('default'))
      .map(({ id }) => id)
      .toSorted(),
  ).toEqual(['default/one', 'default/three', 'two'])
  expect(lines).toMatchObject([
    { file: 'd.yaml', msg: 'a file cannot be read' },
    { preset: 'default/bad', msg: 'a broken preset is quarantined' },
  ])
})
