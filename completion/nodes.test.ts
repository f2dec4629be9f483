import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, test } from 'vitest'
import type { Domain } from '../api/domain/domain.ts'
import type { VirtualMachineSpec, VirtualMachine } from '../api/virtual-machine.ts'
import type { NodeProfile } from '../api/node-profile.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { emulatedCapabilities, nodeProfile, olderCapabilities } from '../test/node-profile.ts'
import { until } from '../test/until.ts'
import { bundledCapabilities } from './capabilities.ts'
import { complete, type CompleteOptions } from './complete.ts'
import { intersect } from './intersect.ts'
import { nodeCapabilities, shareCapabilities } from './nodes.ts'

const old = olderCapabilities('10.0')
const nodes = [
  nodeProfile('new-1', bundledCapabilities, { labels: { pool: 'new' } }),
  nodeProfile('new-2', bundledCapabilities, { labels: { pool: 'new' } }),
  nodeProfile('old', old, { labels: { pool: 'old' } }),
  nodeProfile('plain', emulatedCapabilities, { taints: [{ key: 'control-plane', effect: 'NoSchedule' }] }),
]
const known = nodeCapabilities(nodes)
const pair = nodes.filter(({ metadata: { name = '' } }) => ['new-1', 'old'].includes(name))
const two = nodeCapabilities(pair)
const spec = (more: Partial<VirtualMachineSpec> = {}): VirtualMachineSpec => ({ domain: { type: 'qemu' }, ...more })
const nodesFor = (given: VirtualMachineSpec): string[] => {
  const { groups, outliers } = known.providedFor(given)
  return [...groups, ...outliers].flatMap((group) => group.nodes).toSorted()
}

describe('the capabilities for a VM', () => {
  test('are common to all nodes on which it may run', () => {
    const { capabilities, groups, outliers } = two.providedFor(spec())
    expect({ groups, outliers }).toEqual({
      groups: [
        { capabilities: bundledCapabilities, nodes: ['new-1'] },
        { capabilities: old, nodes: ['old'] },
      ],
      outliers: [],
    })
    expect(capabilities).toEqual(intersect([bundledCapabilities, old]))
  })

  test('ignore a few nodes without what nearly all others have', () => {
    expect(known.providedFor(spec())).toEqual({
      capabilities: bundledCapabilities,
      groups: [{ capabilities: bundledCapabilities, nodes: ['new-1', 'new-2'] }],
      outliers: [{ capabilities: old, nodes: ['old'] }],
    })
    expect(known.census()).toEqual({ nodes: 4, outliers: ['old'] })
  })

  test('ignore a node without what nearly all others of the cluster have, also beside few others', () => {
    const ofPool = { labels: { pool: 'small' } }
    const honest = Array.from({ length: 9 }, (_, index) => nodeProfile(`other-${index}`, bundledCapabilities))
    const small = [nodeProfile('good', bundledCapabilities, ofPool), nodeProfile('bad', old, ofPool)]
    const select = (profiles: readonly NodeProfile[]) =>
      nodeCapabilities(profiles).providedFor(spec({ nodeSelector: { pool: 'small' } }))
    expect(select([...honest, ...small])).toEqual({
      capabilities: bundledCapabilities,
      groups: [{ capabilities: bundledCapabilities, nodes: ['good'] }],
      outliers: [{ capabilities: old, nodes: ['bad'] }],
    })
    expect(select(small)).toMatchObject({ groups: [{ nodes: ['good'] }, { nodes: ['bad'] }], outliers: [] })
    expect(select([...honest, ...small.slice(1)])).toMatchObject({ groups: [{ nodes: ['bad'] }], outliers: [] })
    const late = Array.from({ length: 30 }, (_, index) => nodeProfile(`late-${index}`, bundledCapabilities))
    const another = nodeProfile('bad-2', old, ofPool)
    expect(select([...late, ...small, another])).toMatchObject({ groups: [{ nodes: ['good'] }, {}], outliers: [] })
  })

  test('are those of the nodes that it selects', () => {
    const provided = known.providedFor(spec({ nodeSelector: { pool: 'new' } }))
    expect(provided.capabilities).toBe(bundledCapabilities)
    expect(provided.groups.flatMap((group) => group.nodes)).toEqual(['new-1', 'new-2'])
  })

  test('are cached for few sets of nodes', () => {
    const pools = Array.from({ length: 65 }, (_, index) => `pool-${index}`)
    const one = nodeCapabilities(pools.map((pool) => nodeProfile(pool, bundledCapabilities, { labels: { pool } })))
    const select = (pool: string) => one.providedFor(spec({ nodeSelector: { pool } }))
    const first = select('pool-0')
    expect(select('pool-0')).toBe(first)
    for (const pool of pools.slice(1)) select(pool)
    expect(select('pool-0')).not.toBe(first)
  })

  test('are combined once for the same nodes, however many placements mean these', () => {
    const one = nodeCapabilities(pair)
    const tolerating = (key: string) => one.providedFor(spec({ tolerations: [{ key, operator: 'Exists' }] }))
    const first = tolerating('first')
    for (let other = 0; other < 64; other++) expect(tolerating(`other-${other}`)).toBe(first)
    expect(tolerating('first')).toBe(first)
  })

  test('are combined once for the same kinds of nodes, whichever nodes of these a VM fits on', () => {
    const { name = '' } = pair[0]?.metadata ?? {}
    // Without the first node, the other kind comes first.
    const more = pair.map((node) => ({ ...node, metadata: { name: `${node.metadata.name}-2` } }))
    const many = nodeCapabilities([...pair, ...more])
    const without = (node: string) => {
      const matchFields = [{ key: 'metadata.name', operator: 'NotIn' as const, values: [node] }]
      const required = { nodeSelectorTerms: [{ matchFields }] }
      const affinity = { nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: required } }
      return many.providedFor(spec({ affinity })).capabilities
    }
    expect(without(name)).toBe(without('no-node'))
  })

  const tolerations = [{ operator: 'Exists' as const }]

  test('include nodes whose taints it tolerates', () => {
    expect(nodesFor(spec({ tolerations }))).toEqual(['new-1', 'new-2', 'old', 'plain'])
  })

  test('are those of nodes with KVM for type kvm', () => {
    expect(nodesFor(spec({ tolerations, domain: { type: 'kvm' } }))).toEqual(['new-1', 'new-2', 'old'])
  })

  test('are those of all nodes for type kvm if none has KVM, so that causes name the nodes', () => {
    const nodeSelector = { 'kubernetes.io/hostname': 'plain' }
    expect(nodesFor(spec({ tolerations, nodeSelector, domain: { type: 'kvm' } }))).toEqual(['plain'])
  })

  test('are the bundled ones if no node fits', () => {
    expect(known.providedFor(spec({ nodeSelector: { pool: 'none' } }))).toEqual({
      capabilities: bundledCapabilities,
      groups: [],
      outliers: [],
    })
  })

  test('are the bundled ones if no node has published any', () => {
    const none = nodeCapabilities([])
    expect(none.providedFor(spec())).toEqual({ capabilities: bundledCapabilities, groups: [], outliers: [] })
    expect(none.published).toEqual([bundledCapabilities])
  })

  test('are cached for equal placements', () => {
    expect(known.providedFor(spec({ nodeSelector: { pool: 'old' } }))).toBe(
      known.providedFor(spec({ nodeSelector: { pool: 'old' }, domain: { type: 'qemu', title: 'another' } })),
    )
  })

  test('are known once for each image, the bundled ones last', () => {
    expect(known.published).toEqual([bundledCapabilities, old, emulatedCapabilities])
    // The emulated ones are of the bundled image.
    expect(known.known).toEqual([bundledCapabilities, old])
  })
})

test('equal capabilities of several nodes become one object', () => {
  const share = shareCapabilities()
  const [one, two, three] = [bundledCapabilities, bundledCapabilities, old].map((capabilities) =>
    share(structuredClone(capabilities)),
  )
  expect(two).toBe(one)
  expect(three).toEqual(old)
})

test('capabilities that are no longer used take no memory', async () => {
  setFlagsFromString('--expose-gc')
  const collect: () => void = runInNewContext('gc')
  const share = shareCapabilities()
  const small = { ...old, machines: [], devices: [], accelerators: {}, hyperv: [], words: {}, firmware: [] }
  const heapUsed = () => {
    collect()
    return process.memoryUsage().heapUsed
  }
  const before = heapUsed()
  for (let index = 0; index < 40_000; index++) share({ ...small, version: `10.0.${index}` })
  // 133 bytes for each would be 5 MB.
  await until(() => heapUsed() - before < 1_000_000, undefined, { deadlineMs: 30_000 })
  const again = share({ ...small, version: '10.0.1' })
  expect(share({ ...small, version: '10.0.1' })).toBe(again)
})

describe('completion', () => {
  const vm = (more: Partial<VirtualMachineSpec> = {}): VirtualMachine => ({
    apiVersion: 'virtset.io/v1alpha1',
    kind: 'VirtualMachine',
    metadata: { name: 'vm', namespace: 'default', labels: { size: 'small' } },
    spec: {
      domain: { type: 'qemu', memory: { unit: 'MiB', value: 64 }, os: { type: { os: 'hvm' } } },
      ...more,
    },
  })
  const options = (profiles: readonly NodeProfile[] = nodes): CompleteOptions => ({
    presets: createCandidates(),
    namespace: { name: 'default', labels: {} },
    capabilities: nodeCapabilities(profiles),
    entropy: { uid: 'a' },
  })
  const machineOf = (given: VirtualMachine, how = options()): unknown => {
    const outcome = complete(given, how)
    return outcome.outcome === 'completed' ? outcome.vm.spec.domain.os?.type?.machine : outcome.causes
  }
  const causesOf = (given: VirtualMachine, how = options()): unknown => {
    const outcome = complete(given, how)
    return outcome.outcome === 'refused'
      ? outcome.causes.map(({ field, message, suggestion }) => [field, message, suggestion])
      : outcome
  }

  test('uses what all nodes have', () => expect(machineOf(vm(), options(pair))).toBe('pc-i440fx-9.2'))
  test('uses what nearly all nodes have', () => expect(machineOf(vm())).toBe('pc-i440fx-10.0'))
  test('uses what the selected nodes have', () => {
    expect(machineOf(vm({ nodeSelector: { pool: 'new' } }))).toBe('pc-i440fx-10.0')
  })

  test('uses the nodes that a preset selects', () => {
    const compiled = compilePreset({
      apiVersion: 'virtset.io/v1alpha1',
      kind: 'VirtualMachinePreset',
      metadata: { name: 'new', namespace: 'default' },
      spec: { selector: { matchLabels: { size: 'small' } }, nodeSelector: { pool: 'new' } },
    })
    if (!('preset' in compiled)) throw new Error('no preset')
    expect(machineOf(vm(), { ...options(), presets: createCandidates([compiled.preset]) })).toBe('pc-i440fx-10.0')
  })

  const newest = { domain: { ...vm().spec.domain, os: { type: { os: 'hvm' as const, machine: 'pc-q35-10.0' } } } }

  test('refuses what some nodes do not have, and names the nodes that have it', () => {
    expect(causesOf(vm(newest), options(pair))).toEqual([
      [
        'spec.domain.os.type.machine',
        'node old does not have machine type pc-q35-10.0; node new-1 has it',
        'nodeSelector: {kubernetes.io/hostname: new-1}',
      ],
    ])
    expect(machineOf(vm({ ...newest, nodeSelector: { 'kubernetes.io/hostname': 'new-1' } }))).toBe('pc-q35-10.0')
  })

  describe('if one node of four does not have a capability that a VM requires', () => {
    const memory = { value: 1, unit: 'GiB' as const }
    const numa = { cpu: { numa: { cells: [{ id: 0, cpus: '0', memory: 1, unit: 'GiB' as const }] } } }
    const memoryBacking = { hugepages: { pages: [{ size: 1, unit: 'GiB' as const }] } }
    const asking = vm({ domain: { ...vm().spec.domain, memory, ...numa, memoryBacking } })
    const without = { ...bundledCapabilities, host: { numaNodes: 4, pageSizes: [4, 2048] } }
    const honest = ['a', 'b', 'c'].map((name) => nodeProfile(name, bundledCapabilities))

    test('the VM is admitted with a warning', () => {
      const outcome = complete(asking, options([...honest, nodeProfile('small', without)]))
      expect([outcome.outcome, outcome.warnings.at(-1)]).toEqual([
        'completed',
        'memoryBacking.hugepages.pages[0].size: node small does not have pages of 1048576 KiB: the VM will not run there',
      ])
    })

    test('the VM is refused if two of five do not have it', () => {
      const [one, two] = ['small-1', 'small-2'].map((name) => nodeProfile(name, without))
      const outcome = complete(asking, options([...honest, ...(one ? [one] : []), ...(two ? [two] : [])]))
      expect(outcome.outcome).toBe('refused')
    })
  })

  describe('of a CPU', () => {
    const warningsOf = (given: VirtualMachine, how: CompleteOptions): unknown => {
      const outcome = complete(given, how)
      return outcome.outcome === 'completed' ? outcome.warnings : outcome
    }
    const withCpu = (name: string, blockers: string[], cpuFeatures: string[]) =>
      nodeProfile(name, {
        ...bundledCapabilities,
        accelerators: { kvm: { cpuModels: [{ name: 'EPYC', blockers }], cpuFeatures } },
      })
    const intel = withCpu('intel', ['svm'], ['aes', 'vmx'])
    const amd = withCpu('amd', [], ['aes', 'svm'])
    const old = withCpu('old', ['aes', 'svm'], [])
    const asking = (cpu: Domain['cpu'] = {}) => vm({ domain: { ...vm().spec.domain, type: 'kvm', cpu } })
    const epyc = asking({ model: { value: 'EPYC' } })

    test('admits a VM without a warning if one node has it', () => {
      expect(warningsOf(epyc, options([intel, amd, old]))).toEqual(
        warningsOf(asking({ mode: 'host-model' }), options([amd])),
      )
    })

    test('refuses what no node has, and names what each does not have', () => {
      expect(causesOf(epyc, options([intel, old]))).toEqual([
        [
          'spec.domain.cpu.model.value',
          'node intel does not have CPU feature svm of model EPYC; node old does not have CPU features aes, svm of model EPYC',
          'mode: host-model',
        ],
      ])
    })

    test('refuses what no node has at once', () => {
      const both = asking({ mode: 'host-passthrough', features: [{ name: 'svm' }, { name: 'vmx' }] })
      expect(causesOf(both, options([intel, amd]))).toEqual([
        ['spec.domain.cpu.features[0].name', 'node intel does not have CPU feature svm', undefined],
        ['spec.domain.cpu.features[1].name', 'node amd does not have CPU feature vmx', undefined],
      ])
    })

    test('counts only the nodes that the VM selects by the labels of CPUs', () => {
      const selecting = { ...epyc, spec: { ...epyc.spec, nodeSelector: { 'cpu-feature.virtset.io/vmx': 'true' } } }
      expect(causesOf(selecting, options([intel, amd, old]))).toEqual([
        ['spec.domain.cpu.model.value', 'node intel does not have CPU feature svm of model EPYC', 'mode: host-model'],
      ])
    })
  })

  test('ignores a node that publishes no capabilities', () => {
    const [machine] = bundledCapabilities.machines
    const lie = {
      ...bundledCapabilities,
      version: '0.0.1',
      emulator: '/a',
      machines: machine ? [{ ...machine, name: 'none', maxCpus: 1 }] : [],
      devices: [],
      accelerators: {},
      words: { 'video.modelType': [] },
      firmware: [],
      host: { numaNodes: 0, pageSizes: [] },
    }
    const honest = ['a', 'b'].map((name) => nodeProfile(name, bundledCapabilities))
    const [actual, expected] = [[...honest, nodeProfile('liar', lie)], honest].map((profiles) =>
      complete(vm(newest), options(profiles)),
    )
    if (actual?.outcome !== 'completed' || expected?.outcome !== 'completed') throw new Error('refused')
    expect([actual.vm, actual.warnings]).toEqual([expected.vm, expected.warnings])
  })

  test('refuses what no node has, and names nodes', () => {
    const many = ['a', 'b', 'c', 'd', 'e'].map((name) => nodeProfile(name, old))
    expect(causesOf(vm(newest), options(many))).toEqual([
      [
        'spec.domain.os.type.machine',
        'QEMU on this node has no such machine type; q35 and pc are aliases for the newest versions (nodes a, b, c and 2 more do not have machine type pc-q35-10.0)',
        'did you mean "pc-q35-3.0"?',
      ],
    ])
  })

  test('refuses KVM if no node has it', () => {
    const domain = { ...vm().spec.domain, type: 'kvm' as const }
    expect(causesOf(vm({ domain }), options([nodeProfile('plain', emulatedCapabilities)]))).toEqual([
      [
        'spec.domain.type',
        'QEMU on this node has no such accelerator; it has qemu (node plain does not have KVM)',
        undefined,
      ],
    ])
  })

  test('does not name nodes if a VM is invalid on all of them', () => {
    const clock = { offset: 'timezone' as const }
    const given = vm({ domain: { ...vm().spec.domain, clock }, nodeSelector: { pool: 'new' } })
    expect(causesOf(given)).toEqual([['spec.domain.clock.timezone', 'must be set for offset timezone', undefined]])
  })

  describe('of a VM that was completed for other nodes', () => {
    const efi = vm({
      domain: {
        ...vm().spec.domain,
        features: { acpi: {} },
        os: { firmware: 'efi', type: { os: 'hvm', machine: 'pc-q35-9.2' } },
      },
    })
    const moved = {
      ...bundledCapabilities,
      emulator: '/opt/qemu',
      firmware: bundledCapabilities.firmware.map((one) => ({ ...one, features: [...one.features, 'moved'] })),
    }
    const another = { ...old, emulator: '/a/qemu', firmware: moved.firmware }
    const before = complete(efi, options([nodeProfile('before', moved)]))

    test.each([
      ['another node joined', [nodeProfile('before', moved), nodeProfile('another', another)]],
      ['the nodes are the same', [nodeProfile('before', moved)]],
    ])('changes nothing if %s', (_, profiles) => {
      if (before.outcome === 'refused') throw new Error('refused')
      const after = complete(before.vm, options(profiles))
      expect(after.outcome === 'completed' && after.vm).toEqual(before.vm)
    })

    test('changes nothing if the VM was completed before any node published capabilities', () => {
      const bundled = complete(efi, options([]))
      if (bundled.outcome === 'refused') throw new Error('refused')
      const after = complete(bundled.vm, options([nodeProfile('now', { ...old, emulator: '/opt/qemu' })]))
      expect(after.outcome === 'completed' && after.vm).toEqual(bundled.vm)
    })
  })
})
