import fastJsonPatch from 'fast-json-patch'
import { expect, test } from 'vitest'
import type { VirtualMachine } from '../api/machine.ts'
import { completedByAnnotation, excludePresetsAnnotation } from '../api/machine.ts'
import type { Preset } from '../api/preset.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { fakeClock } from '../test/fake-clock.ts'
import { operationsOf } from '../test/operations.ts'
import { cachesWithout } from './caches.ts'
import { createEngine, type Engine } from './engine.ts'
import { noPermissions, type Access } from './permission.ts'
import type { Review } from './review.ts'
import { mutate } from './verdict.ts'

const { applyPatch } = fastJsonPatch

const clock = fakeClock()
const apiVersion = 'virtset.io/v1alpha1'

const preset = (name: string, spec: object, namespace?: string): Preset => ({
  apiVersion,
  kind: namespace === undefined ? 'ClusterVirtualMachinePreset' : 'VirtualMachinePreset',
  metadata: { name, uid: name, ...(namespace === undefined ? {} : { namespace }) },
  spec: { selector: {}, ...spec },
})

const granting = preset('grant', { domain: { devices: { emulator: '/bin/qemu' } } })
const harmless = preset('title', { domain: { title: 'x' } })
const enforced = preset('enforced', { strength: 'Enforce', domain: { title: 'x' } }, 'default')

const machine = (annotations: { [key: string]: string } = {}): VirtualMachine => ({
  apiVersion,
  kind: 'VirtualMachine',
  metadata: { name: 'vm', namespace: 'default', annotations },
  spec: { domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } } },
})

const review = (object: Preset | VirtualMachine, more: Partial<Review> = {}): Review => ({
  uid: 'u-1',
  kind: object.kind,
  name: object.metadata.name ?? '',
  namespace: object.metadata.namespace ?? '',
  operation: 'CREATE',
  user: { username: 'jane', groups: [] },
  isDryRun: false,
  object,
  oldObject: undefined,
  request: {},
  ...more,
})

const setUp = (given: { presets?: readonly Preset[]; ageMs?: number; may?: (access: Access) => boolean } = {}) => {
  const candidates = createCandidates()
  for (const one of given.presets ?? []) {
    const compiled = compilePreset(one)
    if ('preset' in compiled) candidates.set(compiled.preset)
  }
  const asked: Access[] = []
  const engine: Engine = createEngine(
    { ...cachesWithout(clock), candidates, ageMs: () => given.ageMs ?? 0 },
    async (_, access) => {
      asked.push(access)
      return given.may?.(access) ?? false
    },
    clock,
  )
  return { engine, asked }
}

const grant = { verb: 'grant-host', resource: 'clustervirtualmachinepresets', name: 'grant' }
const exemptCluster = { verb: 'exempt', resource: 'clustervirtualmachinepresets', name: 'title' }
const exemptOwn = { verb: 'exempt', resource: 'virtualmachinepresets', namespace: 'default', name: 'enforced' }

test.each<[string, Review, Access[]]>([
  ['a preset that grants', review(granting), [grant]],
  ['one that does not', review(harmless), []],
  ['one that granted the same before', review(granting, { operation: 'UPDATE', oldObject: granting }), []],
  ['one that granted nothing before', review(granting, { operation: 'UPDATE', oldObject: harmless }), [grant]],
  ['what has no metadata', review(granting, { object: { kind: 'ClusterVirtualMachinePreset' } }), []],
  ['a VM', review(machine()), []],
  [
    'a VM that wants no preset',
    review(machine({ [excludePresetsAnnotation]: '*' })),
    [exemptOwn, exemptCluster].toSorted((a, b) => (a.name < b.name ? -1 : 1)),
  ],
  [
    'a config with the same annotation',
    review({ ...machine({ [excludePresetsAnnotation]: '*' }) }, { kind: 'VirtualMachineConfig' }),
    [],
  ],
])('what the API server is asked about %s', async (_, given, expected) => {
  const { engine, asked } = setUp({ presets: [harmless, enforced] })
  await engine.permissions(given)
  expect(asked).toEqual(expected)
})

test.each([
  ['may', true],
  ['may not', false],
])('who %s grant is known', async (_, isAllowed) => {
  const { engine } = setUp({ may: () => isAllowed })
  expect(await engine.permissions(review(granting))).toEqual({ exempt: new Set(), mayGrantHost: isAllowed })
})

test('a grant that stays as it was needs no right', async () => {
  const { engine } = setUp()
  const kept = review(granting, { operation: 'UPDATE', oldObject: granting })
  expect(await engine.permissions(kept)).toEqual({ exempt: new Set(), mayGrantHost: true })
})

test('one is exempt from what one may be exempt from, and from nothing else', async () => {
  const { engine } = setUp({ presets: [harmless, enforced], may: ({ name }) => name === 'title' })
  expect(await engine.permissions(review(machine({ [excludePresetsAnnotation]: '*' })))).toEqual({
    exempt: new Set(['title']),
    mayGrantHost: false,
  })
})

test('a grant without the right is refused', () => {
  const { engine } = setUp()
  expect(engine.checkPreset(granting, noPermissions).causes.map(({ rule }) => rule)).toEqual(['grant-host'])
  expect(engine.checkPreset(granting, { ...noPermissions, mayGrantHost: true }).causes).toEqual([])
  expect(engine.checkPreset(harmless, noPermissions).causes).toEqual([])
})

test('a preset for every item that is there can be valid', () => {
  const disks = [{ target: { dev: '*' }, driver: { cache: 'none' } }]
  const { engine } = setUp()
  expect(engine.checkPreset(preset('cache', { domain: { devices: { disks } } }), noPermissions).warnings).toEqual([
    'spec.selector: {} selects every VM of every namespace that it is for',
  ])
})

test('the author of a preset is told with which others it disagrees: five of them by name', () => {
  const others = Array.from({ length: 7 }, (_, index) => preset(`other-${index}`, { domain: { title: 'y' } }))
  const { warnings } = setUp({ presets: others }).engine.checkPreset(harmless, noPermissions)
  const told = warnings.filter((warning) => warning.includes('disagree'))
  expect(told.filter((warning) => warning.includes('other-')).length).toBe(5)
  expect(told.at(-1)).toBe('may disagree with more presets: not all were compared')
})

test('a preset that was approved is waited for, until the watch has told of it or its time is over', async () => {
  const { engine } = setUp()
  engine.expect(review(harmless))
  let isAnswered = false
  const answer = engine.permissions(review(machine()))?.then((permissions) => {
    isAnswered = true
    return permissions
  })
  await clock.advance(299)
  expect(isAnswered).toBe(false)
  await clock.advance(1)
  expect(await answer).toEqual(noPermissions)
})

test.each<[string, Review]>([
  ['of a dry run', review(harmless, { isDryRun: true })],
  ['without a name', review(harmless, { name: '' })],
  ['whose spec stays', review(harmless, { operation: 'UPDATE', oldObject: harmless })],
  ['that is a VM', review(machine())],
])('nobody waits for a preset %s', (_, expected) => {
  const { engine } = setUp()
  engine.expect(expected)
  expect(engine.permissions(review(machine()))).toBeUndefined()
})

test.each([
  ['as long as the API server is heard of', 120_000, []],
  ['after two minutes without', 120_001, ['presets may be out of date: the API server was last heard of 120 s ago']],
])('users are told that presets may be old: %s', (_, ageMs, expected) => {
  const { engine } = setUp({ ageMs })
  const { warnings } = engine.complete(machine(), review(machine()), noPermissions)
  expect(warnings.filter((warning) => warning.includes('out of date'))).toEqual(expected)
})

test('what was just completed is its own, in its namespace', () => {
  const { engine } = setUp()
  const completed = engine.complete(machine(), review(machine()), noPermissions)
  const object = 'completed' in completed ? completed.completed.machine : undefined
  expect(engine.isOwn(object, review(machine()))).toBe(true)
  expect(engine.isOwn(object, review(machine(), { namespace: 'other' }))).toBe(false)
})

test('provenance says what is the user’s, and what a preset took from them', () => {
  const takes = preset('takes', { strength: 'Enforce', domain: { title: 'x', description: 'd' } })
  const { engine } = setUp({ presets: [takes] })
  const asked = { ...machine(), spec: { domain: { ...machine().spec.domain, title: 'mine' } } }
  const completed = engine.complete(asked, review(asked), noPermissions)
  const remembered = engine.remember('completed' in completed ? completed.completed.machine : machine())
  const paths = ['type', 'title', 'description'].map((key) => `spec.domain.${key}`)
  const said = (value: string) => paths.map((path) => [remembered.isUsers(path), remembered.isOverridden(path, value)])
  expect(said('mine')).toEqual([
    [true, false],
    [false, true],
    [false, false],
  ])
  expect(said('another')[1]).toEqual([false, false])
})

test('without provenance all is the user’s, and nothing was taken', () => {
  const remembered = setUp().engine.remember(machine({ [completedByAnnotation]: 'broken' }))
  const at = 'spec.domain.title'
  expect([remembered.isUsers(at), remembered.isOverridden(at, 'x')]).toEqual([true, false])
})

test('a VM that was just completed is recognised when it is validated, and a changed one is not', () => {
  const { engine } = setUp()
  const sent = machine()
  const verdict = mutate(review(sent), engine, { controllers: [] })
  const { newDocument: stored } = applyPatch(structuredClone(sent), structuredClone([...operationsOf(verdict)]))
  expect(engine.isOwn(stored, review(stored))).toBe(true)
  const changed = { ...stored, spec: { domain: { ...stored.spec.domain, title: 'x' } } }
  expect(engine.isOwn(changed, review(changed))).toBe(false)
})
