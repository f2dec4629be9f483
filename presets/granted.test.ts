import { describe, expect, test } from 'vitest'
import type { Origin } from '../api/cause.ts'
import { clusterPreset, injectSmall, preset, vmWith } from '../test/presets/make.ts'
import { unmetered } from '../api/steps.ts'
import { grantsOf } from './granted.ts'
import { virtualMachineKind } from './kind.ts'

const disk = (dev: string) => ({ type: 'file', target: { dev } })
const disks = (...devices: readonly string[]) => ({ devices: { disks: devices.map(disk) } })

describe('a condition that the presets of the namespace make false grants nothing', () => {
  const title = 'spec.domain.title'
  const granting = clusterPreset('granting', {
    matchConditions: [
      {
        name: 'no-vdc',
        expression:
          "!has(object.spec.domain.devices) || object.spec.domain.devices.disks.all(d, d.target.dev != 'vdc')",
      },
    ],
    domain: { title: 'host' },
  })
  const adding = clusterPreset('adding', { strength: 'Enforce', domain: disks('vdb') })
  const team = preset('p', { domain: disks('vdc') })
  const remover = (index: number) => preset('r', { strength: 'Enforce', remove: [`domain.devices.disks[${index}]`] })
  const isGranted = (...presets: ReturnType<typeof preset>[]) =>
    injectSmall(vmWith(disks('vda')), [granting, adding, ...presets]).grants.injected.grantorsAt(title).length > 0

  test('also when they remove other items, counted among those of all presets', () => {
    expect(isGranted()).toBe(true)
    expect(isGranted(team)).toBe(false)
    expect(isGranted(team, remover(0))).toBe(false)
    expect(isGranted(team, remover(1))).toBe(false)
    expect(isGranted(team, remover(2))).toBe(true)
  })
})

describe('what the cluster enforces on another VM', () => {
  const { grants } = injectSmall(vmWith({}), [
    clusterPreset('c', { strength: 'Enforce', domain: { vcpu: { value: 2 } }, remove: ['domain.words'] }),
    clusterPreset('d', { domain: { title: 'd' } }),
    preset('p', { strength: 'Enforce', domain: { type: 'kvm' } }),
  ])

  test('is what its presets of strength Enforce state, without removals', () => {
    const other = vmWith({ vcpu: { value: 1 }, words: ['a'] })
    expect(grants.enforceOn(other)).toEqual(vmWith({ vcpu: { value: 2 }, words: ['a'] }))
  })

  test('is nothing if no such preset applies', () => {
    const other = vmWith({ vcpu: { value: 1 } })
    const none = injectSmall(vmWith({}), [clusterPreset('d', { domain: { title: 'd' } })]).grants
    expect(none.enforceOn(other)).toBe(other)
  })
})

test.each([
  ['nothing', [], 0],
  ['a short path', ['spec.domain.title'], 1],
])('of the ancestors of a long path, those that can be stated are looked up if %s is', (_, stated, most) => {
  let lookups = 0
  class Counting extends Map<string, readonly Origin[]> {
    override get(path: string) {
      lookups++
      return super.get(path)
    }
  }
  const granted = new Counting(stated.map((path) => [path, []]))
  const { vm } = injectSmall(vmWith({}), [])
  const namespace = { name: 'default', labels: {} }
  const { injected } = grantsOf({
    object: vm,
    applied: [],
    namespace,
    request: {},
    kind: virtualMachineKind(),
    settled: { object: vm, granted: { stated: granted, overruled: new Map() } },
    steps: unmetered,
  })
  expect(injected.grantorsAt(`spec.domain.devices.disks[0]${'.backingStore'.repeat(120)}.format.type`)).toEqual([])
  expect(lookups).toBeLessThanOrEqual(most)
})
