import { describe, expect, it } from 'vitest'
import type { Schema } from './schema.ts'
import { configStatusSchema, presetStatusSchema, virtualMachineStatusSchema } from './status.ts'

/** The characters of the longest value; Infinity if there is no bound. */
function longest({ type, enum: values, format, maxLength = Infinity, maxItems = Infinity, ...schema }: Schema): number {
  if (type === 'object') {
    const properties = Object.entries(schema.properties ?? {})
    return properties.reduce((sum, [key, below]) => sum + key.length + 4 + longest(below), 2)
  }
  if (type === 'array') return maxItems * (longest(schema.items ?? {}) + 1)
  if (type !== 'string') return 20
  return values === undefined && format === undefined ? maxLength : 32
}

describe('the status that the controller caches', () => {
  const dropped = ['domain', 'interfaces', 'guest', 'podIP', 'podIPs', 'presets', 'machine', 'memory', 'cpus']
  const properties = Object.entries(virtualMachineStatusSchema.properties ?? {})
  const cached = Object.fromEntries(properties.filter(([key]) => !dropped.includes(key)))

  it.each<[string, Schema]>([
    ['a VM', { type: 'object', properties: cached }],
    ['a config', configStatusSchema],
    ['a preset', presetStatusSchema],
  ])('of %s is bounded, since nodes and administrators of namespaces can write it', (_, schema) => {
    expect(longest(schema)).toBeLessThan(300_000)
  })
})
