import { Ajv } from 'ajv'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { domains } from '../../test/arbitraries/domain.ts'
import type { Schema } from '../schema.ts'
import { domain } from './domain.ts'
import { schemaOf } from './schema.ts'
import { validateDomain } from './validate.ts'

const schema = schemaOf(domain)

const at = (path: string): Schema | undefined => {
  let here: Schema | undefined = schema
  for (const key of path.split('.')) here = (here?.items ?? here)?.properties?.[key]
  return here
}

describe('the structural schema', () => {
  test.each<[string, Partial<Schema>]>([
    ['memory', { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }],
    ['memory.value', { 'x-kubernetes-int-or-string': true, description: 'The amount. An integer.' }],
    ['title', { type: 'string' }],
    ['metadata', { type: 'string' }],
    ['cpu.mode', { type: 'string', enum: ['custom', 'host-model', 'host-passthrough', 'maximum'] }],
    ['os.bootmenu.enable', { enum: [true, false, 'yes', 'no'], 'x-kubernetes-preserve-unknown-fields': true }],
    ['devices.disks', { type: 'array' }],
    ['devices.disks.source.host', { type: 'object', description: 'The only item of `hosts`.' }],
  ])('%s', (path, expected) => expect(at(path)).toMatchObject(expected))

  test('a backing store of a backing store ends in a subtree that the webhook checks', () => {
    expect(at('devices.disks.backingStore.source.file')).toMatchObject({ type: 'string' })
    expect(at('devices.disks.backingStore.backingStore')).toEqual({
      description: expect.any(String),
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
    })
  })

  test('`kubectl explain` marks what only a cluster preset can set', () => {
    expect(at('os.kernel')?.description).toContain('Reaches the host: only a cluster preset may set it.')
    expect(at('memoryBacking.source.type')?.description).toContain('Only a cluster preset may set file.')
  })

  /**
   * The API server's rules for structural schemas: every node has a type, or a reason for not having one, and a
   * description.
   */
  test('is structural, and describes every field', () => {
    const faults: string[] = []
    const visit = (node: Schema, path: string, isItem: boolean): void => {
      const isFree =
        node['x-kubernetes-preserve-unknown-fields'] === true || node['x-kubernetes-int-or-string'] === true
      if (node.type === undefined && !isFree) faults.push(`${path}: no type`)
      if (!isItem && !node.description) faults.push(`${path}: no description`)
      for (const [key, below] of Object.entries(node.properties ?? {})) visit(below, `${path}.${key}`, false)
      if (node.items) visit(node.items, `${path}[]`, true)
    }
    visit(schema, 'domain', false)
    expect(faults).toEqual([])
  })

  test('stays within what an API server accepts: it accepted a CRD of 450 KB', () =>
    expect(JSON.stringify(schema).length).toBeLessThan(460_000))
})

test('another validator with the schema accepts generated domains', () => {
  const ajv = new Ajv({ strict: false, allErrors: true })
  ajv.addKeyword({
    keyword: 'x-kubernetes-int-or-string',
    validate: (_: unknown, value: unknown) => typeof value === 'string' || Number.isInteger(value),
  })
  const validate = ajv.compile(schema)
  fc.assert(
    fc.property(domains({ fields: 8 }), (generated) => {
      validate(generated)
      expect(validate.errors ?? []).toEqual([])
    }),
    { numRuns: 200 },
  )
  // Our validator also refuses what the schema refuses, with its own messages.
  for (const wrong of [
    { cpu: { mode: 'x' } },
    { memory: 1 },
    { memory: { value: 1.5 } },
    { clock: { timers: {} } },
    { title: 1 },
  ]) {
    expect([validate(wrong), validateDomain(wrong).length]).toEqual([false, 1])
  }
})
