import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import { driftBetween, specDrift } from './drift.ts'

describe('drift', () => {
  test.each([
    ['nothing', { memory: 1 }, { memory: 1 }, []],
    ['a value', { memory: 1 }, { memory: 2 }, [{ field: 'spec.domain.memory', spec: 1, libvirt: 2 }]],
    ['a field that libvirt added', {}, { cpu: {} }, [{ field: 'spec.domain.cpu', libvirt: {} }]],
    ['a field that libvirt dropped', { cpu: {} }, {}, [{ field: 'spec.domain.cpu', spec: {} }]],
    [
      'an item of a list',
      { devices: { disks: [{ target: 'vda' }, { target: 'vdb' }] } },
      { devices: { disks: [{ target: 'vda' }] } },
      [{ field: 'spec.domain.devices.disks[1]', spec: { target: 'vdb' } }],
    ],
    ['a scalar for an object', { os: 'hvm' }, { os: {} }, [{ field: 'spec.domain.os', spec: 'hvm', libvirt: {} }]],
    ['a list for an object', { os: [] }, { os: {} }, [{ field: 'spec.domain.os', spec: [], libvirt: {} }]],
  ])('%s', (_, spec, libvirt, drift) => expect(driftBetween(spec, libvirt)).toEqual(drift))

  test('of too many fields is cut', () => {
    expect(driftBetween(Array(500).fill(1), Array(500).fill(2))).toHaveLength(100)
  })

  test('is there exactly if two values differ', () => {
    const json = fc.jsonValue({ maxDepth: 3 }).map((value) => JSON.parse(JSON.stringify(value)))
    const isSame = fc.property(json, (value) => driftBetween(value, structuredClone(value)).length === 0)
    expect(fc.check(isSame).counterexample).toBe(null)
    const differs = fc.property(
      json,
      json,
      (one, other) => driftBetween(one, other).length > 0 === (sorted(one) !== sorted(other)),
    )
    expect(fc.check(differs).counterexample).toBe(null)
  })
})

describe('the machine type', () => {
  const machine = (name: string) => ({ os: { type: { os: 'hvm' as const, machine: name } } })

  test.each([
    ['pc', 'pc-i440fx-10.0', true],
    ['q35', 'pc-q35-10.0', true],
    ['pc', 'pc-q35-10.0', false],
    ['pc-q35-9.2', 'pc-q35-10.0', false],
    ['constructor', 'pc-q35-10.0', false],
  ])('%s may become %s: %s', (spec, libvirt, isSame) => {
    expect(specDrift(machine(spec), machine(libvirt)).length === 0).toBe(isSame)
  })
})

test('a secret, which libvirt does not show, does not drift', () => {
  const spec: Domain = {
    devices: {
      graphics: [{ type: 'vnc', passwd: 'hidden' }],
      disks: [{ type: 'network', source: { protocol: 'https', cookies: { cookies: [{ name: 'a', value: 'b' }] } } }],
    },
  }
  const libvirt: Domain = {
    devices: { graphics: [{ type: 'vnc' }], disks: [{ type: 'network', source: { protocol: 'https' } }] },
  }
  expect(specDrift(spec, libvirt)).toEqual([])
  expect(JSON.stringify(specDrift(spec, { devices: {} }))).not.toContain('hidden')
})

function sorted(value: unknown): string {
  return JSON.stringify(value, (_, item: unknown) =>
    typeof item === 'object' && item !== null && !Array.isArray(item)
      ? Object.fromEntries(Object.entries(item).toSorted(([a], [b]) => (a < b ? -1 : 1)))
      : item,
  )
}
