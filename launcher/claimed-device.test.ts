import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { readClaimedDevices } from './claimed-device.ts'

let directory: string
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), 'claimed-'))
})
afterEach(() => rm(directory, { recursive: true }))

async function describe(place: string, driver: string, ...documents: object[]): Promise<void> {
  await mkdir(join(directory, place), { recursive: true })
  const text = documents.map((one) => `${JSON.stringify(one, undefined, 2)}\n`).join('')
  await writeFile(join(directory, place, `${driver}-metadata.json`), text)
}

const version = 'metadata.resource.k8s.io/v1alpha1'
const named = (name: string) => ({ model: { string: name } })
const metadata = (request: string, ...names: string[]) => ({
  apiVersion: version,
  kind: 'DeviceMetadata',
  requests: [{ name: request, devices: names.map((name) => ({ driver: 'd', name, attributes: named(name) })) }],
})
const claims = [
  { name: 'made', resourceClaimTemplateName: 'template' },
  { name: 'given', resourceClaimName: 'own' },
]
const read = (name: string, request = 'gpu') => readClaimedDevices(directory, claims, { name, request })

test('the devices of a claim from a template are found by its name in the pod, in each known version once', async () => {
  await describe(
    'resourceclaimtemplates/made/gpu',
    'b',
    { apiVersion: 'metadata.resource.k8s.io/v9' },
    metadata('gpu', 'three'),
  )
  await describe('resourceclaimtemplates/made/gpu', 'a', metadata('gpu/large', 'one', 'two'), metadata('gpu', 'again'))
  expect(await read('made')).toEqual(['one', 'two', 'three'].map((name) => named(name)))
})

test('the devices of another claim are found by the name of the claim', async () => {
  await describe('resourceclaims/own/gpu', 'a', metadata('gpu', 'one'))
  expect([await read('given'), await read('given', 'nic')]).toEqual([[named('one')], undefined])
})

test('a file in an unknown version, or not of JSON, is refused', async () => {
  await describe('resourceclaims/own/gpu', 'a', { apiVersion: 'metadata.resource.k8s.io/v9' })
  await expect(read('given')).rejects.toThrow(
    `a-metadata.json describes devices in metadata.resource.k8s.io/v9; the launcher reads ${version}`,
  )
  await writeFile(join(directory, 'resourceclaims/own/gpu/a-metadata.json'), '{')
  await expect(read('given')).rejects.toThrow('a-metadata.json is not JSON')
})
