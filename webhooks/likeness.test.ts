import fc from 'fast-check'
import { expect, test } from 'vitest'
import { completedByAnnotation } from '../api/machine.ts'
import type { VirtualMachine } from '../api/machine.ts'
import type { Domain } from '../api/domain/domain.ts'
import { bundledCapabilities } from '../completion/capabilities.ts'
import { complete } from '../completion/complete.ts'
import { createCandidates } from '../presets/candidates.ts'
import type { CompiledPreset } from '../presets/compile.ts'
import { plausibleDomains } from '../test/arbitraries/plausible.ts'
import { clusterPreset, preset, team, vm } from '../test/presets/make.ts'
import { createLikenesses } from './likeness.ts'

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

const optionsFor = (chosen: readonly CompiledPreset[], uid: string) => ({
  presets: createCandidates(chosen),
  quarantined: [],
  namespace: team,
  capabilities: bundledCapabilities,
  entropy: { uid },
  // Plausible domains reach for files, and would be refused.
  allowHostReach: true,
})

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
      chosen: fc.constantFrom(presets.slice(0, 1), presets.slice(2, 4), presets.slice(1)),
    }),
    { minLength: 12, maxLength: 16 },
  ),
)

test('whatever came before, the answer is that of completion', () => {
  let alike = 0
  fc.assert(
    fc.property(machines, (rows) => {
      const remembering = createLikenesses(() => alike++)
      for (const { domain, drawn, labels, name, isGenerated, uid, taken, chosen } of rows) {
        const { name: named, uuid, ...others } = domain
        const written = {
          ...others,
          ...(drawn.includes('name') ? {} : { name: named }),
          ...(drawn.includes('uuid') ? {} : { uuid }),
          ...(drawn.includes('genid') ? { genid: '' } : {}),
        }
        const { metadata, ...rest } = vm(written, { labels })
        const { name: _, ...unnamed } = metadata
        const machine = { ...rest, metadata: { ...unnamed, ...(isGenerated ? { generateName: name } : { name }) } }
        const isMacTaken = (address: string) => taken.includes(address.at(-1) ?? '-')
        const options = { ...optionsFor(chosen, uid), isMacTaken }
        expect(remembering(machine, options)).toEqual(complete(machine, options))
      }
    }),
    { numRuns: 15 },
  )
  expect(alike).toBeGreaterThan(10)
}, 60_000)

const base = vm({ type: 'qemu', memory: { unit: 'MB', value: 64 }, os: { type: { os: 'hvm' } } })
const [first, revised, , , asking] = presets

const rows: [string, VirtualMachine, Partial<ReturnType<typeof optionsFor>>, boolean][] = [
  ['by another name', { ...base, metadata: { ...base.metadata, name: 'other' } }, {}, true],
  ['as drawn for another request', base, { entropy: { uid: 'other' } }, true],
  ['with another annotation', vm(base.spec.domain, { annotations: { a: 'b' } }), {}, false],
  ['with another value', vm({ ...base.spec.domain, title: 'x' }), {}, false],
  [
    'with what a completion claims',
    vm(base.spec.domain, { annotations: { [completedByAnnotation]: '{}' } }),
    {},
    false,
  ],
  ['in another namespace', base, { namespace: { ...team, name: 'other' } }, false],
  ['on another machine', base, { capabilities: { ...bundledCapabilities } }, false],
  ['once a preset is gone', base, { presets: createCandidates([]) }, false],
  ['once a preset is revised', base, { presets: createCandidates(revised ? [revised] : []) }, false],
  ['once a preset asks for more', base, { presets: createCandidates(first && asking ? [first, asking] : []) }, false],
]

test.each(rows)('a VM %s', (_, machine, circumstances, isAlike) => {
  let alike = 0
  const remembering = createLikenesses(() => alike++)
  const usual = optionsFor(first ? [first] : [], 'usual')
  remembering(base, usual)
  remembering(machine, { ...usual, ...circumstances })
  expect(alike === 1).toBe(isAlike)
})

test.each([
  ['is drawn', {}, 1],
  ['was written', { mac: { address: '52:54:00:00:00:01' } }, 0],
])('twice a VM whose MAC address %s', (_, mac, times) => {
  let alike = 0
  const remembering = createLikenesses(() => alike++)
  const machine = vm({ ...base.spec.domain, devices: { interfaces: [{ type: 'user', ...mac }] } })
  remembering(machine, optionsFor([], '1'))
  remembering(machine, optionsFor([], '2'))
  expect(alike).toBe(times)
})

test('remembers the last 256', () => {
  let alike = 0
  const remembering = createLikenesses(() => alike++)
  const options = optionsFor([], 'usual')
  const titled = (title: number) => vm({ ...base.spec.domain, title: `${title}` })
  for (let index = 0; index <= 256; index++) remembering(titled(index), options)
  remembering(titled(256), options)
  expect(alike).toBe(1)
  remembering(titled(0), options)
  expect(alike).toBe(1)
})
