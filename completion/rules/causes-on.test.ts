import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { expect, test, vi } from 'vitest'
import type { Capabilities } from '../../api/capabilities.ts'
import type { Cause } from '../../api/cause.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { plausibleDomains } from '../../test/arbitraries/plausible.ts'
import { emulatedCapabilities, nodeProfile, olderCapabilities } from '../../test/node-profile.ts'
import { minimal, prepare } from '../../test/rule-table.ts'
import '../../test/seed.ts'
import { bundledCapabilities } from '../capabilities.ts'
import { complete } from '../complete.ts'
import { nodeCapabilities } from '../nodes.ts'
import { unfitNodes } from '../unfit.ts'
import { createCandidates } from '../../presets/candidates.ts'
import { checkRules, rules } from './rules.ts'

const [machine] = bundledCapabilities.machines
/** A node that has hardly anything. */
const bare: Capabilities = {
  ...bundledCapabilities,
  machines: machine === undefined ? [] : [{ ...machine, name: 'none', maxCpus: 1 }],
  devices: [],
  accelerators: {},
  words: Object.fromEntries(Object.keys(bundledCapabilities.words).map((key) => [key, []])),
  firmware: [],
  host: { numaNodes: 0, pageSizes: [] },
}
const kinds = [bundledCapabilities, olderCapabilities('10.0'), emulatedCapabilities, bare]

/**
 * Where the rules that read capabilities do not find on a node what all rules find there, or the others find something
 * else than on another node.
 */
function differences(given: Parameters<typeof prepare>[0], without: readonly string[] = []): readonly object[] {
  const [spec, context] = prepare(given)
  const nodes = kinds.map((capabilities) => ({
    capabilities,
    all: checkRules(spec, { ...context, without, capabilities }),
  }))
  const found: object[] = []
  for (const here of nodes) {
    for (const there of nodes) {
      const [onHere, onThere] = [here, there].map(({ capabilities }) => here.all.causesOn(capabilities).map(textOf))
      const [allHere, allThere] = [here, there].map(({ all }) => all.causes.map(textOf))
      if (onHere === undefined || onThere === undefined || allHere === undefined || allThere === undefined) continue
      const dependent = allThere.filter((cause) => onThere.includes(cause))
      if (!isDeepStrictEqual(dependent, onThere)) found.push({ dependent, onThere })
      const others = allThere.filter((cause) => !onThere.includes(cause))
      const same = allHere.filter((cause) => !onHere.includes(cause))
      if (!isDeepStrictEqual(others, same)) found.push({ others, same })
    }
  }
  return found
}

const textOf = (cause: Cause): string => JSON.stringify(cause)

test.each(rules.map(({ id, example }) => [id, example] as const))(
  'the rules that read capabilities find what all rules find, for the example of %s',
  (_, { breaks, holds }) => {
    expect([breaks, holds].flatMap(({ domain }) => differences(domain))).toEqual([])
  },
)

test('the rules that read capabilities find what all rules find, for plausible domains', () => {
  fc.assert(
    fc.property(plausibleDomains(), (domain) => {
      expect(differences(domain)).toEqual([])
    }),
  )
})

test.each(['spec.domain.os.type.machine', 'spec.domain.cpu.mode', 'spec.domain.memory.unit'])(
  'the rules that read capabilities find what all rules find, without the invalid %s',
  (without) => {
    const os = { type: { os: 'hvm' as const, machine: 'pc-q35-9.2' } }
    expect(differences({ os, cpu: { mode: 'host-model' } }, [without])).toEqual([])
  },
)

/** How often rules run for these kinds of nodes, each with one node. */
function countRuns(count: number, run: (nodes: ReturnType<typeof nodeCapabilities>) => unknown): number {
  const profiles = Array.from({ length: count }, (_, index) =>
    nodeProfile(`n${index}`, { ...bundledCapabilities, version: `10.${index}` }),
  )
  const spies = rules.map((rule) => vi.spyOn(rule, 'check'))
  try {
    run(nodeCapabilities(profiles))
    return spies.reduce((sum, { mock }) => sum + mock.calls.length, 0)
  } finally {
    for (const spy of spies) spy.mockRestore()
  }
}

const disks = Array.from({ length: 20 }, (_, index) => ({
  type: 'network' as const,
  target: { dev: `sd${String.fromCharCode(97 + index)}` },
  source: { protocol: 'nbd' as const, name: 'a', hosts: [{ name: 'a.example' }] },
}))
const specOf = (domain: object): VirtualMachineSpec => ({ domain: { ...minimal, devices: { disks }, ...domain } })
const vmOf = (domain: object) => ({
  apiVersion: 'virtset.io/v1alpha1' as const,
  kind: 'VirtualMachine' as const,
  metadata: { name: 'vm', namespace: 'default' },
  spec: specOf(domain),
})

/** Rules that look at a machine type, KVM, a CPU and controllers. */
const mostReading = 6

test.each<[string, (nodes: ReturnType<typeof nodeCapabilities>) => unknown]>([
  [
    'a VM whose machine type no node has',
    (capabilities) =>
      complete(vmOf({ os: { type: { os: 'hvm', machine: 'pc-q35-99.9' } } }), {
        presets: createCandidates(),
        namespace: { name: 'default', labels: {} },
        capabilities,
        entropy: { uid: 'a' },
      }),
  ],
  [
    'the nodes of a VM that forbids a feature of the CPU',
    (capabilities) =>
      unfitNodes(specOf({ cpu: { mode: 'host-model', features: [{ name: 'svm', policy: 'forbid' }] } }), capabilities),
  ],
])('a kind of node more takes a few rules more, not all of them: %s', (_, run) => {
  const [two, ten, fifty] = [2, 10, 50].map((count) => countRuns(count, run))
  if (two === undefined || ten === undefined || fifty === undefined) throw new Error('not counted')
  expect(ten - two).toBeGreaterThan(0)
  expect(ten - two).toBeLessThanOrEqual(8 * mostReading)
  expect(fifty - two).toBe(6 * (ten - two))
})
