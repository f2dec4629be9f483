import { describe, expect, test } from 'vitest'
import type { Origin } from '../api/cause.ts'
import { vmWith } from '../test/presets/make.ts'
import { asSent, inOrderOf, reproduce } from './reproduce.ts'

const small: Origin = { by: 'preset', namespace: 'team', name: 'small', revision: '0123456789abcdef' }
const bus: Origin = { by: 'default', rule: 'disk-bus' }
const user: Origin = { by: 'user' }

const disk = (dev: string) => ({ target: { dev, bus: 'virtio' } })
const claim = (origins: Record<string, Origin>, lost: Record<string, unknown> = {}, filled: string[] = []) => ({
  origins: new Map(Object.entries(origins)),
  overridden: new Map(Object.entries(lost).map(([path, value]) => [path, [{ origin: user, value }]])),
  filled: new Set(filled),
})

describe('restores from the provenance what the user sent', () => {
  const vm = vmWith(
    { type: 'kvm', cpu: { mode: 'host-model' }, title: 'theirs', devices: { disks: [disk('vda'), disk('vdb')] } },
    { labels: { app: 'web', '1': 'x' } },
  )
  const labels = { app: 'web', '1': 'x' }
  const { type, cpu, title } = vm.spec.domain
  test.each<[string, ReturnType<typeof claim>, ReturnType<typeof vmWith>]>([
    ['itself, without a claim', claim({}), vm],
    [
      'without what presets and defaults added, and without objects that become empty',
      claim({
        'metadata.labels.1': small,
        'spec.domain.cpu': small,
        'spec.domain.devices.disks[0].target.bus': bus,
        'spec.domain.devices.disks[1]': small,
      }),
      vmWith({ type, title, devices: { disks: [{ target: { dev: 'vda' } }] } }, { labels: { app: 'web' } }),
    ],
    [
      'with overridden values',
      claim({ 'spec.domain.title': small, 'spec.domain.devices': small }, { 'spec.domain.title': 'mine' }),
      vmWith({ type, cpu, title: 'mine' }, { labels }),
    ],
    [
      'with the whole item if a later one is the user’s, whose index would change otherwise',
      claim({ 'spec.domain.devices.disks[0]': small }),
      vm,
    ],
    [
      'with an empty object that was filled',
      claim({ 'spec.domain.devices': small, 'spec.domain.cpu': small }, {}, ['spec.domain.devices.disks[0]']),
      vmWith({ type, title, devices: { disks: [{}] } }, { labels }),
    ],
    [
      'with an empty list that was filled',
      claim({ 'spec.domain.devices': small, 'spec.domain.cpu': small }, {}, ['spec.domain.devices.disks']),
      vmWith({ type, title, devices: { disks: [] } }, { labels }),
    ],
    ['with its spec and domain, even if empty', claim({ spec: small }), vmWith({}, { labels })],
  ])('%s', (_, given, sent) => {
    expect(asSent(vm, given)).toEqual(sent)
  })
})

describe('a VM is reproduced', () => {
  /** Adds a title and, in a VM without type, a memory size. */
  const complete = (vm: ReturnType<typeof vmWith>) => {
    const { domain } = vm.spec
    const added = domain.type === undefined ? { memory: { value: 1 } } : {}
    return [{ input: domain, vm: vmWith({ title: 'default', ...added, ...domain }) }]
  }
  test.each<[string, object, Record<string, Origin>, object]>([
    ['without the claimed values', { title: 'default', type: 'kvm' }, { 'spec.domain.title': bus }, { type: 'kvm' }],
    [
      'with a claimed value that completion does not add',
      { title: 'mine' },
      { 'spec.domain.title': bus },
      { title: 'mine' },
    ],
    [
      'with a claimed value without which completion would give another VM',
      { title: 'default', type: 'kvm', memory: { value: 1 } },
      { 'spec.domain': bus },
      { type: 'kvm', memory: { value: 1 } },
    ],
  ])('%s', (_, domain, origins, input) => {
    expect(reproduce(vmWith({ ...domain }), claim(origins), complete).input).toEqual(input)
  })
})

describe('what a preset overrode is restored', () => {
  const memory = { unit: 'MiB', value: 64 } as const
  /** Memory of at least 1 GiB, if the user states some. */
  const complete = (vm: ReturnType<typeof vmWith>) => {
    const { domain } = vm.spec
    const added = domain.memory === undefined ? {} : { memory: { unit: 'GiB', value: 1 } }
    return [{ input: domain, vm: vmWith({ ...domain, ...added }) }]
  }
  const given = (unit: string) => vmWith({ type: 'kvm', memory: { unit, value: 1 } })
  const lost = { 'spec.domain.memory': memory }

  test.each<[string, string, Record<string, Origin>, object]>([
    ['with its unit', 'GiB', { 'spec.domain.memory': small }, memory],
    ['unless a part of it is the user’s', 'GiB', { 'spec.domain.memory.value': small }, { unit: 'GiB' }],
    ['unless completion gives another VM', 'TiB', { 'spec.domain.memory': small }, { unit: 'TiB', value: 1 }],
  ])('%s', (_, unit, origins, expected) =>
    expect(reproduce(given(unit), claim(origins, lost), complete).input.memory).toEqual(expected),
  )
})

test('what is the user’s is not searched value by value, however deeply it is nested', () => {
  const nested = (levels: number): object => (levels === 0 ? {} : { a: 1, b: 2, inner: nested(levels - 1) })
  const disks = Array.from({ length: 100 }, (_, index) => ({ ...disk(`vd${index}`), backing: nested(15) }))
  const read: string[] = []
  class ReadOrigins extends Map<string, Origin> {
    override get(path: string): Origin | undefined {
      read.push(path)
      return super.get(path)
    }
  }
  const added = disks.map((_, index) => [`spec.domain.devices.disks[${index}].target.bus`, bus] as const)
  const complete = (vm: ReturnType<typeof vmWith>) => {
    const { devices } = vm.spec.domain
    const completed = devices?.disks?.map((one) => ({ ...one, target: { bus: 'virtio' as const, ...one.target } }))
    return [{ input: vm, vm: vmWith({ devices: { disks: completed } }) }]
  }
  const { input } = reproduce(
    vmWith({ devices: { disks } }),
    { origins: new ReadOrigins(added), overridden: new Map(), filled: new Set() },
    complete,
  )
  expect(input).toEqual(
    vmWith({ devices: { disks: disks.map(({ target: { dev }, backing }) => ({ target: { dev }, backing })) } }),
  )
  expect(read.filter((path) => path.includes('inner'))).toEqual([])
  expect(read.length).toBeLessThan(10 * disks.length)
})

test('a value ordered like another has its additional keys last', () => {
  const ordered = inOrderOf({ c: 1, b: [{ y: 1, x: 2 }], a: { d: 1 } }, { a: {}, z: 1, b: [{ x: 0, y: 0 }] })
  expect(JSON.stringify(ordered)).toBe('{"a":{"d":1},"b":[{"x":2,"y":1}],"c":1}')
})
