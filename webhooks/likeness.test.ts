import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import { completedByAnnotation } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { complete } from '../completion/complete.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { plausibleDomains } from '../test/arbitraries/plausible.ts'
import { operationsOf } from '../test/operations.ts'
import { clusterPreset, preset, team, vm } from '../test/presets/make.ts'
import { auditAnnotations } from './audit.ts'
import { createLikenesses, type LikenessOptions, type Likenesses } from './likeness.ts'
import { patchBetween } from './patch.ts'

const presets: readonly CompiledPreset[] = [
  preset('cpus', { domain: { vcpu: { value: 2 } } }),
  preset('cpus', { domain: { vcpu: { value: 3 } } }),
  preset('title', { domain: { title: 'from a preset' }, mode: 'Warn' }),
  preset('label', { metadata: { labels: { tier: 'front' } }, selector: { matchLabels: { app: 'web' } } }),
  preset('asked', {
    domain: { description: 'asked' },
    matchConditions: [{ name: 'name', expression: 'object.metadata.name == "b"' }],
  }),
  clusterPreset('grants', { domain: { devices: { emulator: '/usr/bin/qemu' } } }),
]
const manyLabels = preset('labels', {
  metadata: { labels: { a: '', b: '', c: '', d: '', e: '', f: '', g: '', h: '' } },
})

let revisions = 0
/** As one index of presets would be at another time. */
const candidatesOf = (chosen: readonly CompiledPreset[]) => {
  const revision = ++revisions
  return { ...createCandidates(chosen), revision: () => revision }
}

const optionsFor = (chosen: readonly CompiledPreset[], uid: string) => ({
  presets: candidatesOf(chosen),
  quarantined: [],
  namespace: team,
  capabilities: bundledCapabilities,
  entropy: { uid },
  // Plausible domains reach for files, and would be refused.
  allowHostReach: true,
})

/** What comes of a VM: with a memory as it gives it, or is given it; without, by itself. */
function answer(machine: VirtualMachine, options: LikenessOptions, likenesses?: Likenesses, isTrusted = false) {
  const review = {
    uid: options.entropy.uid,
    kind: 'VirtualMachine',
    name: machine.metadata.name ?? '',
    namespace: options.namespace.name,
    operation: 'CREATE',
    user: { username: 'jane', groups: [] },
    isDryRun: false,
    object: machine,
    oldObject: undefined,
    request: {},
  } as const
  const alike = likenesses?.find(review, isTrusted, () => options)
  if (alike !== undefined) {
    const { completed, patch, audit } = alike
    const operations = operationsOf({ allowed: true, patch })
    return {
      isAlike: true,
      operations,
      machine: alike.machine(),
      uuid: alike.uuid,
      warnings: completed.warnings,
      audit,
    }
  }
  const outcome = complete(machine, options)
  if (outcome.outcome === 'refused') return { isAlike: false, causes: outcome.causes }
  likenesses?.keep(review, isTrusted, outcome, options)
  const operations = JSON.parse(JSON.stringify(patchBetween({ ...machine }, { ...outcome.machine })))
  const { name, labels, annotations } = outcome.machine.metadata
  const metadata = { ...(name && { name }), ...(labels && { labels }), ...(annotations && { annotations }) }
  return {
    isAlike: false,
    operations,
    machine: { ...outcome.machine, metadata },
    uuid: outcome.machine.spec.domain.uuid,
    warnings: outcome.warnings,
    audit: auditAnnotations(outcome),
  }
}

const isWell = (domain: Domain): boolean =>
  complete(vm({ ...domain, name: undefined, uuid: undefined }), optionsFor([], '1')).outcome === 'completed'

/** VMs of which many are alike: of a few domains, labels and names, with and without what is drawn. */
const machines = fc.array(plausibleDomains().filter(isWell), { minLength: 1, maxLength: 2 }).chain((domains) =>
  fc.array(
    fc.record({
      domain: fc.constantFrom(...domains),
      drawn: fc.constantFrom<string[]>(['uuid', 'genid'], ['name']),
      labels: fc.constantFrom({}, { app: 'web' }),
      name: fc.constantFrom('a', 'b', 'c/d'),
      isGenerated: fc.boolean(),
      uid: fc.constantFrom('1', '2', '3'),
      taken: fc.constantFrom('', '02468ace', '0123456789'),
      chosen: fc.constantFrom(presets.slice(0, 1), presets.slice(0, 1), presets.slice(2, 4), presets.slice(1), [
        manyLabels,
      ]),
    }),
    { minLength: 12, maxLength: 16 },
  ),
)

test('whatever came before, the answer is that of completion', () => {
  let alike = 0
  fc.assert(
    fc.property(machines, (rows) => {
      const likenesses = createLikenesses()
      for (const { domain, drawn, labels, name, isGenerated, uid, taken, chosen } of rows) {
        const { name: named, uuid, ...others } = domain
        const written = {
          ...others,
          ...(drawn.includes('name') ? {} : { name: named }),
          ...(drawn.includes('uuid') ? {} : { uuid }),
          ...(drawn.includes('genid') ? { genid: '' } : {}),
        }
        // What comes over the wire has nothing undefined.
        const { metadata, ...rest }: VirtualMachine = JSON.parse(JSON.stringify(vm(written, { labels })))
        const { name: _, ...unnamed } = metadata
        const machine = { ...rest, metadata: { ...unnamed, ...(isGenerated ? { generateName: name } : { name }) } }
        const isMacTaken = (address: string) => taken.includes(address.at(-1) ?? '-')
        const options = { ...optionsFor(chosen, uid), isMacTaken }
        const { isAlike, ...answered } = answer(machine, options, likenesses)
        if (isAlike) alike += 1
        const { isAlike: _never, ...expected } = answer(machine, options)
        expect(answered).toEqual(expected)
      }
    }),
    { numRuns: 25 },
  )
  expect(alike).toBeGreaterThan(10)
}, 60_000)

const base = vm({ type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } })
const [first, revised, , , asking] = presets
const withMetadata = (metadata: object): VirtualMachine => ({ ...base, metadata: { ...base.metadata, ...metadata } })
const usual = optionsFor(first ? [first] : [], 'usual')

const rows: [string, VirtualMachine, Partial<LikenessOptions>, boolean][] = [
  ['by another name', withMetadata({ name: 'other' }), {}, true],
  ['as drawn for another request', base, { entropy: { uid: 'other' } }, true],
  ['with what the API server says of each', withMetadata({ uid: 'x', generation: 1, managedFields: [{}] }), {}, true],
  ['with another annotation', vm(base.spec.domain, { annotations: { a: 'b' } }), {}, false],
  ['with another owner', withMetadata({ ownerReferences: [{}] }), {}, false],
  ['with a finalizer', withMetadata({ finalizers: ['a'] }), {}, false],
  ['with another value', vm({ ...base.spec.domain, title: 'x' }), {}, false],
  [
    'with what a completion claims',
    vm(base.spec.domain, { annotations: { [completedByAnnotation]: '{}' } }),
    {},
    false,
  ],
  ['in another namespace', base, { namespace: { ...team, name: 'other' } }, false],
  ['on another machine', base, { capabilities: { ...bundledCapabilities } }, false],
  ['while presets come that do not match', base, { presets: candidatesOf(first ? [first] : []) }, true],
  ['once a preset is gone', base, { presets: candidatesOf([]) }, false],
  ['once a preset is revised', base, { presets: candidatesOf(revised ? [revised] : []) }, false],
  ['once a preset asks for more', base, { presets: candidatesOf(first && asking ? [first, asking] : []) }, false],
]

test.each(rows)('a VM %s', (_, machine, circumstances, isAlike) => {
  const likenesses = createLikenesses()
  answer(base, usual, likenesses)
  expect(answer(machine, { ...usual, ...circumstances }, likenesses).isAlike).toBe(isAlike)
})

test.each([
  ['name', { name: 7 }],
  ['name that a rule may object to', { name: 'a/b' }],
  ['prefix of a name', { generateName: {} }],
  ['uid', { uid: [] }],
  ['namespace', { namespace: 1 }],
  ['metadata', undefined],
])('a VM whose %s nobody has looked at is like no other', (_, metadata) => {
  const likenesses = createLikenesses()
  answer(base, usual, likenesses)
  const object = { ...base, metadata: metadata && { ...base.metadata, ...metadata } }
  const review = { uid: 'u', namespace: team.name, object } as Parameters<Likenesses['find']>[0]
  expect(likenesses.find(review, false, () => usual)).toBe(undefined)
})

test('who may write what is reserved is not answered as who may not', () => {
  const likenesses = createLikenesses()
  answer(base, usual, likenesses, true)
  expect([false, true].map((isTrusted) => answer(base, usual, likenesses, isTrusted).isAlike)).toEqual([false, true])
})

test.each([
  ['is drawn', {}, true],
  ['was written', { mac: { address: '52:54:00:00:00:01' } }, false],
])('twice a VM whose MAC address %s', (_, mac, isAlike) => {
  const likenesses = createLikenesses()
  const machine = vm({ ...base.spec.domain, devices: { interfaces: [{ type: 'user', ...mac }] } })
  answer(machine, optionsFor([], '1'), likenesses)
  expect(answer(machine, optionsFor([], '2'), likenesses).isAlike).toBe(isAlike)
})

test('twice a VM whose metadata are replaced whole, name and all', () => {
  const likenesses = createLikenesses()
  const machine = vm(base.spec.domain, { labels: { app: 'web' } })
  const options = optionsFor([manyLabels], '1')
  expect(answer(machine, options, likenesses).operations?.map(({ path }: { path: string }) => path)).toContain(
    '/metadata',
  )
  expect(answer(machine, options, likenesses).isAlike).toBe(false)
})
