import fc from 'fast-check'
import type { Domain } from '../../../api/domain/domain.ts'
import { any, mostly, part, rarely, small, weighted } from './part.ts'

export const vcpu = fc
  .tuple(fc.integer({ min: 1, max: 9 }), fc.integer({ min: 0, max: 9 }))
  .map(([value, current]) => (current === 0 || current > value ? { value } : { value, current }))

export const cpu = rarely(
  { mode: weighted([3, fc.constant('custom')], [2, mostly('cpu.mode', 'host-model', 'host-passthrough', 'maximum')]) },
  {
    model: part(
      { value: weighted([20, fc.constantFrom('qemu64', 'Nehalem', 'Haswell', 'EPYC')], [1, fc.constant('no-such')]) },
      { fallback: any('cpu.model.fallback') },
    ),
    match: any('cpu.match'),
    check: any('cpu.check'),
    migratable: fc.boolean(),
    topology: part({
      sockets: fc.integer({ min: 1, max: 3 }),
      cores: fc.integer({ min: 1, max: 3 }),
      threads: fc.integer({ min: 1, max: 2 }),
    }),
    features: fc.array(
      part({
        name: weighted([20, fc.constantFrom('vmx', 'aes', 'pcid')], [1, fc.constant('nosuch')]),
        policy: any('cpu.features.policy'),
      }),
      { minLength: 1, maxLength: 2 },
    ),
    numa: part({
      cells: fc
        .array(part({ memory: fc.constantFrom(262144, 524288) }, { cpus: fc.constantFrom('0', '1', '0-1', '2-3') }), {
          minLength: 1,
          maxLength: 2,
        })
        .map((cells) => cells.map(({ memory, ...cell }) => ({ ...cell, memory, unit: 'KiB' }))),
    }),
    cache: part({ mode: any('cpu.cache.mode') }, { level: any('cpu.cache.level') }),
    maxphysaddr: part({ mode: any('cpu.maxphysaddr.mode') }, { bits: small(64) }),
  },
)

type Cpu = NonNullable<Domain['cpu']>

/** Sets the number of virtual CPUs to the product of the topology, and drops fields of the model without a model. */
export const carefulCpu = ({ vcpu: stated, cpu, ...domain }: Domain): Domain => {
  if (!cpu) return { ...domain, ...(stated ? { vcpu: stated } : {}) }
  const { features, migratable, match, check, topology, cache, maxphysaddr, ...rest } = cpu
  const isHost = cpu.mode === 'host-passthrough' || cpu.mode === 'maximum'
  const isNamed = cpu.model !== undefined || (cpu.mode ?? 'custom') !== 'custom'
  const count = topology ? Number(topology.sockets) * Number(topology.cores) * Number(topology.threads) : undefined
  const value = count ?? (cpu.numa ? 4 : undefined)
  const careful: Cpu = {
    ...rest,
    ...(isNamed && features ? { features: features.slice(0, 1) } : {}),
    ...(isHost && migratable !== undefined ? { migratable } : {}),
    ...(isNamed && match && !isHost ? { match } : {}),
    ...(isNamed && check ? { check } : {}),
    ...(topology && !cpu.numa ? { topology } : {}),
    ...(cache && carefulCache(cache, isHost)),
    ...(maxphysaddr && (maxphysaddr.mode === 'passthrough') === isHost && (isHost || maxphysaddr.bits)
      ? { maxphysaddr: isHost ? { mode: 'passthrough' } : maxphysaddr }
      : {}),
  }
  return { ...domain, cpu: careful, ...(value === undefined ? (stated ? { vcpu: stated } : {}) : { vcpu: { value } }) }
}

/** Gives an emulated cache level 3, and a passed-through cache no level. */
const carefulCache = (cache: NonNullable<Cpu['cache']>, isHost: boolean): Pick<Cpu, 'cache'> => {
  if (cache.mode === 'passthrough') return isHost ? { cache: { mode: 'passthrough' } } : {}
  return { cache: cache.mode === 'emulate' ? { mode: 'emulate', level: 3 } : { mode: 'disable' } }
}
