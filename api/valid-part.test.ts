import { expect, test } from 'vitest'
import type { Cause } from './cause.ts'
import { faultless } from './valid-part.ts'
import { parseVirtualMachine } from './virtual-machine.ts'

const vm = (domain: object, more: object = {}) => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'a' },
  spec: { domain, ...more },
})

const check = (value: unknown): readonly Cause[] => {
  const parsed = parseVirtualMachine(value)
  return 'causes' in parsed ? parsed.causes : []
}

const rows: [string, object, object | undefined, string[]][] = [
  ['a valid value is unchanged', vm({ type: 'kvm' }), vm({ type: 'kvm' }), []],
  [
    'a faulty leaf is removed',
    vm({ type: 'kvmm', memory: { value: 1 } }),
    vm({ memory: { value: 1 } }),
    ['spec.domain.type'],
  ],
  [
    'an unknown key is removed, and other items keep their indexes',
    vm({ devices: { disks: [{ devise: 'x', target: { dev: 'vda' } }, { target: { dev: 'vdb' } }] } }),
    vm({ devices: { disks: [{ target: { dev: 'vda' } }, { target: { dev: 'vdb' } }] } }),
    ['spec.domain.devices.disks[0].devise'],
  ],
  [
    'a list with a scalar item is removed',
    vm({ devices: { disks: ['vda', { target: { dev: 'vdb' } }] } }),
    vm({ devices: {} }),
    ['spec.domain.devices.disks[0]'],
  ],
  [
    'removes an object without a required member',
    vm({ type: 'kvm' }, { volumes: [{ name: 'a' }] }),
    vm({ type: 'kvm' }, {}),
    ['spec.volumes[0]', 'spec.volumes'],
  ],
  ['nothing remains without a spec', { metadata: { name: 'a' } }, undefined, []],
]

test.each(rows)('%s', (_, value, rest, without) => {
  const before = structuredClone(value)
  expect(faultless(value, check)).toEqual(rest === undefined ? undefined : { rest, without })
  expect(value).toEqual(before)
})

test('a value with thirty thousand unknown fields is not repaired: its causes suffice', () => {
  const many = vm(Object.fromEntries(Array.from({ length: 30_000 }, (_, index) => [`field${index}`, 1])))
  expect(faultless(many, check)).toBeUndefined()
})

test('copies an object once per round, however many of its values are removed', () => {
  const fields = Array.from({ length: 200 }, (_, index) => [`field${index}`, 1] as const)
  const metadata = { name: 'a', ...Object.fromEntries(Array.from({ length: 100_000 }, (_, at) => [`key${at}`, at])) }
  const value = { ...vm(Object.fromEntries(fields)), padding: metadata }
  const since = process.cpuUsage()
  expect(faultless(value, check)?.without).toHaveLength(200)
  const { user, system } = process.cpuUsage(since)
  expect(user + system).toBeLessThan(1_000_000)
})

test('a key of the prototype is treated like any other', () => {
  const value: unknown = JSON.parse(
    '{"metadata": {"name": "a"}, "spec": {"domain": {"__proto__": {"x": 1}, "type": "kvm"}}}',
  )
  expect(faultless(value, check)).toEqual({
    rest: { metadata: { name: 'a' }, spec: { domain: { type: 'kvm' } } },
    without: ['spec.domain.__proto__'],
  })
  expect({}).not.toHaveProperty('x')
})

test.each(['[', ' a'])(
  'a key of a megabyte of "%s" is removed with what it is in, without being taken apart',
  (part) => {
    const key = part.repeat(1_000_000 / part.length)
    const result = faultless(vm({ type: 'kvm', devices: { [key]: 1 } }), check)
    expect(result?.without.map((path) => path.slice(0, 100))).toEqual(['spec.domain.devices'])
    expect(result?.rest).toEqual(vm({ type: 'kvm' }))
  },
)
