import { Ajv } from 'ajv'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { parseAllDocuments } from 'yaml'
import { describe, expect, test } from 'vitest'
import { files, preset, vm } from '../test/cli/files.ts'
import { runVm } from '../test/cli/world.ts'
import { kindSchemas } from './schema.ts'
import { parseManifest } from '../api/yaml.ts'

const all = async (): Promise<object> => JSON.parse((await runVm(['schema'])).out)
const validator = async () => new Ajv({ strict: false, validateFormats: false, allErrors: true }).compile(await all())
const read = (text: string): unknown => {
  const manifest = parseManifest(text)
  return 'values' in manifest ? manifest.values[0] : manifest
}

describe('the JSON Schemas', async () => {
  const validate = await validator()

  test.each([
    ['a VM', vm('a'), true],
    ['a number as text', vm('a', '    vcpu: {value: "2"}\n'), true],
    ['a preset', preset('a', '{selector: {}, domain: {vcpu: {value: 1}}}'), true],
    ['an unknown field', vm('a', '    vcpuu: 1\n'), false],
    ['an invalid value of an enum', vm('a').replace('type: qemu', 'type: vmware'), false],
    ['an unknown field of a preset', preset('a', '{selector: {}, domain: {vcpuu: 1}}'), false],
    ['an unknown kind', 'kind: Pod', false],
  ])('%s', (_, text, isValid) => expect(validate(read(text))).toBe(isValid))

  const examples = join(import.meta.dirname, '../manifests/examples')
  const names = readdirSync(examples, { recursive: true, encoding: 'utf8' }).filter(
    (name) => name.endsWith('.yaml') && !/refused|kustomization|demo-target/.test(name),
  )
  test.each(names)('%s is valid', (name) => {
    for (const document of parseAllDocuments(readFileSync(join(examples, name), 'utf8'))) {
      const value: unknown = document.toJS()
      if (value === null) continue
      expect([validate(value), validate.errors]).toEqual([true, null])
    }
  })
})

test('one for a kind, in any letter case; the nearest for an unknown kind', async () => {
  expect(JSON.parse((await runVm(['schema', 'virtualmachine'])).out)).toMatchObject({
    title: 'VirtualMachine',
    type: 'object',
  })
  expect(await runVm(['schema', 'VirtualMachin'])).toMatchObject({
    code: 2,
    err: 'error: unknown kind "VirtualMachin"; did you mean VirtualMachine?\n',
  })
})

test('a file for each kind', async () => {
  const at = files({})
  await runVm(['schema', '--out-dir', at()])
  expect(readdirSync(at()).toSorted()).toEqual(
    [...kindSchemas().keys()].map((kind) => `${kind.toLowerCase()}.schema.json`).toSorted(),
  )
})
