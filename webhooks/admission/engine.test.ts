import fastJsonPatch from 'fast-json-patch'
import { describe, expect, test } from 'vitest'
import type { Preset } from '../../api/preset.ts'
import { excludePresetsAnnotation, type VirtualMachine } from '../../api/virtual-machine.ts'
import { admissionRequest } from '../../test/admission.ts'
import { fakeClock, settle } from '../../test/fake-clock.ts'
import { operationsOf } from '../../test/operations.ts'
import { candidatesOf, preset } from '../../test/preset.ts'
import type { Clock } from '../../runtime/clock.ts'
import type { Phase } from '../metrics.ts'
import { cachesWithout } from './caches.ts'
import { createEngine } from './engine.ts'
import { mutate } from './handler.ts'
import { noPermissions, type Access } from './permission.ts'
import type { AdmissionRequest } from './request.ts'

const { applyPatch } = fastJsonPatch

const clock = fakeClock()
const harmless = preset('title', { domain: { title: 'x' } })

const vm = (annotations: { [key: string]: string } = {}): VirtualMachine => ({
  apiVersion: 'virtset.io/v1alpha1',
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default', annotations },
  spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
})

const requestFor = (object: Preset | VirtualMachine, more: Partial<AdmissionRequest> = {}): AdmissionRequest =>
  admissionRequest(object.kind, object, undefined, {
    name: object.metadata.name ?? '',
    namespace: object.metadata.namespace ?? '',
    ...more,
  })

/** Each read advances the clock by a millisecond. */
const tickingClock = () => {
  let nowMs = 0
  return { ...clock, monotonic: () => ++nowMs }
}

const setUp = (given: { presets?: readonly Preset[]; ageMs?: number; clock?: Clock } = {}) => {
  const reviewed: Access[] = []
  const phases: [Phase, number][] = []
  const matched: number[] = []
  const caches = {
    ...cachesWithout(clock),
    candidates: candidatesOf(...(given.presets ?? [])),
    ageMs: () => given.ageMs ?? 0,
  }
  const engine = createEngine(
    caches,
    async (_, access) => {
      reviewed.push(access)
      return true
    },
    given.clock ?? clock,
    { phase: (phase, seconds) => void phases.push([phase, seconds]), matched: (count) => void matched.push(count) },
  )
  return { engine, caches, reviewed, phases, matched }
}

describe('permissions', () => {
  test('are not required for a VM', () => {
    expect(setUp({ presets: [harmless] }).engine.permissions(requestFor(vm()))).toBeUndefined()
  })

  test('are required where a VM excludes a preset', async () => {
    const { engine, reviewed } = setUp({ presets: [harmless] })
    const request = requestFor(vm({ [excludePresetsAnnotation]: 'title' }))
    expect(await engine.permissions(request)).toEqual({ exempt: new Set(['title']), mayGrantHost: false })
    expect(reviewed.length).toBe(1)
  })

  test('are required for a grant', async () => {
    const { engine } = setUp()
    const granting = preset('grant', { domain: { devices: { emulator: '/bin/qemu' } } })
    expect(await engine.permissions(requestFor(granting))).toEqual({ exempt: new Set(), mayGrantHost: true })
  })
})

describe('the presets of a namespace', () => {
  test('are known when the watch has reported the pending one, or the time is over', async () => {
    const { engine } = setUp({ presets: [harmless] })
    engine.expectPreset(requestFor(harmless))
    const done: string[] = []
    void engine.ready('default')?.then(() => done.push('default'))
    await clock.advance(299)
    expect(done).toEqual([])
    await clock.advance(1)
    expect(done).toEqual(['default'])
  })

  test('are known if the pending one is of another namespace', async () => {
    const { engine } = setUp()
    engine.expectPreset(requestFor(preset('p', { domain: { title: 'x' } }, 'other')))
    expect(engine.ready('default')).toBeUndefined()
    await clock.advance(300)
  })

  test.each<[string, AdmissionRequest]>([
    ['of a dry run', requestFor(harmless, { isDryRun: true })],
    ['without a name', requestFor(harmless, { name: '' })],
    ['whose spec is unchanged', requestFor(harmless, { operation: 'UPDATE', oldObject: harmless })],
    ['of another kind: a VM', requestFor(vm())],
    ['of another kind: a config', requestFor(vm(), { kind: 'VirtualMachineConfig' })],
  ])('do not wait for one %s', (_, expected) => {
    const { engine } = setUp()
    engine.expectPreset(expected)
    expect(engine.ready('default')).toBeUndefined()
  })

  test.each([preset('p', { domain: { title: 'x' } }, 'default'), harmless])(
    'wait for those of the namespace and of the cluster',
    async (pending) => {
      const { engine, caches } = setUp()
      engine.expectPreset(requestFor(pending))
      expect(engine.ready('default')).toBeInstanceOf(Promise)
      caches.pendingPresets.arrived(pending.metadata.namespace === undefined ? 'title' : 'default/p', () => 0)
      await settle()
      expect(engine.ready('default')).toBeUndefined()
    },
  )
})

test('presets that are admitted and not stored yet count for their namespace, for as long as they can be stored', async () => {
  const { engine, caches } = setUp()
  const large = (name: string, namespace = 'default') =>
    preset(name, { mode: 'Audit', metadata: { annotations: { a: 'x'.repeat(62_000) } } }, namespace)
  const admit = (one: Preset) => {
    const { causes } = engine.checkPreset(one, noPermissions, true)
    if (causes.length === 0) engine.expectPreset(requestFor(one))
    return causes.map(({ rule }) => rule)
  }
  const names = Array.from({ length: 17 }, (_, index) => `p${index}`)
  const tooMuch = ['namespace-presets-size']
  expect(names.map((name) => admit(large(name)))).toEqual([...names.slice(1).map(() => []), tooMuch])
  // One that is sent again, and that of another namespace.
  expect([admit(large('p0')), admit(large('p16', 'other')), admit(large('p16'))]).toEqual([[], [], tooMuch])
  // The cache has it from now on.
  caches.pendingPresets.arrived('default/p1', () => 64_000)
  expect([admit(large('p16')), admit(large('p17'))]).toEqual([[], tooMuch])
  await clock.advance(60_000)
  expect(admit(large('p17'))).toEqual([])
})

describe('completion', () => {
  const stale = (ageMs: number) => [`presets may be out of date: no contact with the API server for ${ageMs / 1000} s`]
  const refused = { ...vm(), spec: { domain: { ...vm().spec.domain, memory: { unit: 'MiB', value: 0 } } } } as const

  test.each<[string, VirtualMachine, number, readonly string[]]>([
    ['of a VM with fresh caches', vm(), 120_000, []],
    ['of a VM with old caches', vm(), 121_000, stale(121_000)],
    ['of a refused VM with old caches', refused, 121_000, stale(121_000)],
  ])('%s', (_, given, ageMs, expected) => {
    const { warnings } = setUp({ ageMs }).engine.complete(given, requestFor(given), noPermissions)
    expect(warnings.filter((warning) => warning.includes('out of date'))).toEqual(expected)
  })

  test('audits and counts the presets that were applied, and times its phases for metrics and trace', () => {
    const { engine, phases, matched } = setUp({ presets: [harmless], clock: tickingClock() })
    const traced: [string, number][] = []
    const request = requestFor(vm(), { onPart: (part, seconds) => void traced.push([part, seconds]) })
    expect(engine.complete(vm(), request, noPermissions).audit).toEqual({ presets: 'title' })
    engine.patch({}, {}, request)
    expect([matched, traced]).toEqual([[1], phases])
    const names = ['presets', 'defaults', 'rules', 'provenance', 'patch']
    expect(phases).toEqual(names.map((name) => [name, 0.001]))
    expect(engine.complete(refused, requestFor(refused), noPermissions).audit).toEqual({ presets: 'title' })
  })

  test('of a refused VM keeps the warnings of its presets', () => {
    const { engine } = setUp({ presets: [preset('look', { mode: 'Warn', domain: { title: 'x' } })] })
    const { warnings } = engine.complete(refused, requestFor(refused), noPermissions)
    expect(warnings.filter((warning) => warning.includes('"look" (mode Warn)')).length).toBe(1)
  })

  test('applies presets except those from which the VM is exempt', () => {
    const { engine } = setUp({ presets: [harmless] })
    const titleOf = (permissions = noPermissions) => {
      const given = vm({ [excludePresetsAnnotation]: 'title' })
      const outcome = engine.complete(given, requestFor(given), permissions)
      return 'completed' in outcome ? outcome.completed.vm.spec.domain.title : outcome.causes
    }
    expect(titleOf({ ...noPermissions, exempt: new Set(['title']) })).toBeUndefined()
  })

  test('does not report what is missing only because it was malformed', () => {
    const { engine } = setUp()
    const { type: _, ...domain } = vm().spec.domain
    const rest = { ...vm(), spec: { domain: { ...domain, os: {} } } }
    const causesWithout = (without: readonly string[]) => {
      const outcome = engine.complete(rest, requestFor(rest), noPermissions, without)
      return 'causes' in outcome ? outcome.causes.map(({ field }) => field) : []
    }
    expect(causesWithout([]).filter((field) => field.startsWith('spec.domain.os')).length).toBeGreaterThan(0)
    expect(causesWithout(['spec.domain.os.type']).filter((field) => field.startsWith('spec.domain.os'))).toEqual([])
  })
})

describe('a VM that was completed here', () => {
  test('is recognized in its namespace', () => {
    const { engine } = setUp()
    const outcome = engine.complete(vm(), requestFor(vm()), noPermissions)
    const completed = 'completed' in outcome ? outcome.completed.vm : vm()
    expect(engine.wasCompletedHere(requestFor(completed))).toBe(true)
    expect(engine.wasCompletedHere(requestFor(completed, { namespace: 'other' }))).toBe(false)
  })

  test('is recognized as the patch makes it, and not when it was changed', () => {
    const { engine } = setUp()
    const sent = vm()
    const result = mutate(requestFor(sent), engine, { controllers: [] })
    const { newDocument: stored } = applyPatch(structuredClone(sent), structuredClone([...operationsOf(result)]))
    expect(engine.wasCompletedHere(requestFor(stored))).toBe(true)
    const changed = { ...stored, spec: { domain: { ...stored.spec.domain, title: 'x' } } }
    expect(engine.wasCompletedHere(requestFor(changed))).toBe(false)
  })
})

test('presets are checked against the others, with the permissions of the user', () => {
  const { engine } = setUp({ presets: [preset('other', { domain: { title: 'y' } })] })
  const { causes, warnings } = engine.checkPreset(harmless, noPermissions, true)
  expect([causes, warnings.filter((warning) => warning.includes('other')).length]).toEqual([[], 1])
})
