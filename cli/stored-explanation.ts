import type { Origin } from '../api/cause.ts'
import { hasLongInteger } from '../api/long-integer.ts'
import type { DecodedProvenance, Provenance } from '../completion/provenance.ts'
import type { Candidates } from '../presets/candidates.ts'
import type { Considered, ConsideredNow } from './considered.ts'
import { explanationOf, type Explanation } from './explanation.ts'

/** The explanation of a stored object by its provenance. @param presets those that are in scope now */
export function explanationOfStored(
  stored: Parameters<typeof explanationOf>[0],
  provenance: DecodedProvenance,
  presets: readonly ConsideredNow[],
  rankOf: (origin: Origin) => number | undefined,
): Explanation {
  const revisions = new Map([...presetsIn(provenance)].map((origin) => [idOf(origin), origin.revision]))
  const current = presets.map((one) => atRevision(one, revisions))
  const deleted = [...revisions.keys()]
    .filter((id) => !presets.some(({ preset }) => preset === id))
    .map((preset): Considered => ({
      preset,
      layer: '',
      priority: 0,
      outcome: 'deleted',
      why: 'was applied and has been deleted since',
    }))
  const all = explanationOf(stored, provenance, [...current, ...deleted], rankOf, [])
  const rounded = all.fields.filter(({ value, overridden }) => hasLongInteger([value, overridden]))
  const explanation = { ...all, warnings: rounded.map(({ path }) => `${path} is beyond 2^53, and shown rounded`) }
  return provenance.left > 0 ? { ...explanation, left: provenance.left } : explanation
}

type PresetOrigin = Origin & { readonly by: 'preset' }

function* presetsIn({ origins, overridden, removed, skipped }: Provenance): Generator<PresetOrigin> {
  const lost = [...overridden.values()].flat()
  for (const origin of [...origins.values(), ...removed.values(), ...[...lost, ...skipped].map((one) => one.origin)]) {
    if (origin.by === 'preset') yield origin
  }
}

const idOf = ({ namespace, name }: PresetOrigin): string => (namespace === undefined ? name : `${namespace}/${name}`)

/** An applied preset remains applied, regardless of its conditions now. It may have been changed since. */
function atRevision(one: ConsideredNow, then: ReadonlyMap<string, string>): Considered {
  const { revision, ...now } = one
  const was = then.get(one.preset)
  if (was === undefined) return now
  const { why: _, ...known } = now
  if (was === revision) return { ...known, outcome: 'applied' }
  const current = [now.outcome, ...(now.why === undefined ? [] : [now.why])].join(', ')
  return { ...known, outcome: 'applied', why: `at revision ${was}; now at ${revision}: ${current}` }
}

/** The rank of each preset that still exists, to explain why one won over another. */
export const ranksAmong =
  (candidates: Pick<Candidates, 'get'>) =>
  (origin: Origin): number | undefined =>
    origin.by === 'preset' ? candidates.get(idOf(origin))?.rank : undefined
