import { isRecord } from '../api/schema.ts'
import { rules } from '../completion/rules/rules.ts'
import { createCandidates } from '../presets/candidates.ts'
import { systemClock } from '../runtime/clock.ts'
import { createArrivals } from '../webhooks/arrivals.ts'
import { createEngine } from '../webhooks/engine.ts'
import { noPermissions } from '../webhooks/permission.ts'
import { answerReview, parseReview } from '../webhooks/review.ts'
import { mutate } from '../webhooks/verdict.ts'

/** What came out of many mutated reviews. */
export interface FuzzReport {
  readonly reviews: number
  readonly allowed: number
  /** Of the longest answer, in milliseconds. */
  readonly longestMs: number
  /** What was not as it has to be: the seed of the review, and what is wrong. */
  readonly faults: readonly { readonly seed: number; readonly fault: string }[]
}

/** Well-behaved numbers from 0 to 1 for a seed: mulberry32, by Tommy Ettinger, in the public domain. */
const chance = (seed: number) => {
  let state = seed >>> 0
  return (): number => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 0x1_0000_0000
  }
}

/** What breaks what is not prepared for it. */
const nasty: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  2 ** 53,
  1e308,
  4_294_967_295,
  '4294967295',
  '18446744073709551615',
  '0xffffffff',
  '',
  ' ',
  '__proto__',
  'constructor',
  '../../etc/passwd',
  'ｈｏｓｔ',
  '\u0000',
  '\ud800',
  'a'.repeat(5000),
  '0-65535',
  '^0',
  [],
  {},
  [null],
  [[]],
  { '': '' },
]

const keys = [
  '__proto__',
  'constructor',
  'toString',
  'hasOwnProperty',
  '',
  'devices',
  'type',
  'a.b',
  'a[0]',
  'source',
  'address',
  'model',
]

const bases: readonly string[] = rules.flatMap(({ example: { breaks, holds } }) =>
  [breaks, holds].map((spec) =>
    JSON.stringify({
      ...spec,
      domain: { type: 'kvm', memory: { unit: 'GiB', value: 1 }, os: { type: { os: 'hvm' } }, ...spec.domain },
    }),
  ),
)

/** Every object and list of a value. */
const holdersOf = (value: unknown): object[] => {
  const found: object[] = []
  const visit = (one: unknown): void => {
    if (typeof one !== 'object' || one === null) return
    found.push(one)
    for (const member of Object.values(one)) visit(member)
  }
  visit(value)
  return found
}

/** The text of a review whose VM was changed in some places at random. */
export function mutatedReview(seed: number): string {
  const random = chance(seed)
  const pick = <T>(from: readonly T[]): T | undefined => from[Math.floor(random() * from.length)]
  const spec: unknown = JSON.parse(pick(bases) ?? '{}')
  for (let count = 1 + Math.floor(random() * 4); count > 0; count -= 1) mutateOnce(spec, random, pick)
  const object = { apiVersion: 'virtset.io/v1alpha1', kind: 'VirtualMachine', metadata: { name: 'vm' }, spec }
  return JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: `uid-${seed}`,
      kind: { group: 'virtset.io', version: 'v1alpha1', kind: 'VirtualMachine' },
      resource: { group: 'virtset.io', version: 'v1alpha1', resource: 'virtualmachines' },
      name: 'vm',
      namespace: 'default',
      operation: 'CREATE',
      userInfo: { username: 'jane' },
      object,
    },
  })
}

function mutateOnce(spec: unknown, random: () => number, pick: <T>(from: readonly T[]) => T | undefined): void {
  const holder = pick(holdersOf(spec))
  if (holder === undefined) return
  const names = Object.keys(holder)
  const name = pick(names) ?? 'x'
  const set = (key: string, value: unknown): void => {
    Object.defineProperty(holder, key, { value, enumerable: true, writable: true, configurable: true })
  }
  const value: unknown = Object.getOwnPropertyDescriptor(holder, name)?.value
  const choice = Math.floor(random() * 6)
  if (choice === 0) set(name, structuredClone(pick(nasty)))
  else if (choice === 1 && !Array.isArray(holder)) Reflect.deleteProperty(holder, name)
  else if (choice === 2 && Array.isArray(holder)) holder.push(structuredClone(value))
  else if (choice === 3 && !Array.isArray(holder)) set(pick(keys) ?? '', structuredClone(value ?? pick(nasty)))
  else if (choice === 4 && !Array.isArray(holder)) {
    // A part of another VM.
    const other: unknown = JSON.parse(pick(bases) ?? '{}')
    const domain = isRecord(other) ? other['domain'] : undefined
    const devices = isRecord(domain) && isRecord(domain['devices']) ? domain['devices'] : {}
    const [key, part] = pick([...Object.entries(isRecord(domain) ? domain : {}), ...Object.entries(devices)]) ?? [
      'x',
      0,
    ]
    set(key, part)
  } else if (typeof value === 'string') set(name, value.slice(0, -1))
  else if (typeof value === 'number') set(name, value * (random() < 0.5 ? 1000 : -1))
  else set(name, [value])
}

/** @param answer the answer as it goes over the wire */
function faultOf(answer: string, uid: string): string | undefined {
  const parsed: unknown = JSON.parse(answer)
  const response = isRecord(parsed) ? parsed['response'] : undefined
  if (!isRecord(response)) return 'no response'
  const { allowed, status, patch, warnings = [] } = response
  if (response['uid'] !== uid) return 'another uid'
  if (answer.length > 3 * 1024 * 1024) return 'too long an answer'
  if (!Array.isArray(warnings) || warnings.some((one) => typeof one !== 'string' || one.length > 200))
    return 'odd warnings'
  if (allowed === true) return patch === undefined || typeof patch === 'string' ? undefined : 'odd patch'
  if (allowed !== false || !isRecord(status)) return 'neither allowed nor refused'
  const details = isRecord(status['details']) ? status['details'] : {}
  const { causes } = details
  if (!Array.isArray(causes) || causes.length === 0) return 'refused without a cause'
  const isWhole = causes.every(
    (cause) => isRecord(cause) && ['reason', 'field', 'message'].every((key) => typeof cause[key] === 'string'),
  )
  return isWhole ? undefined : 'a cause without field, reason or message'
}

const prototypes = [Object.prototype, Array.prototype, String.prototype, Number.prototype, Function.prototype]
const shapeOfPrototypes = (): string => prototypes.map((one) => Reflect.ownKeys(one).length).join()

/** An answer takes no longer, however odd the review. */
export const maxAnswerMs = 100

/**
 * Sends mutated reviews through admission, from the bytes to the bytes.
 * @param firstSeed the same seeds make the same reviews
 */
export function fuzz(firstSeed: number, count: number, clock: () => number): FuzzReport {
  const engine = createEngine(
    {
      candidates: createCandidates(),
      quarantined: new Map(),
      arrivals: createArrivals(systemClock),
      namespace: (name) => ({ name, labels: {} }),
      ageMs: () => 0,
    },
    () => Promise.resolve(false),
  )
  const before = shapeOfPrototypes()
  const faults: { seed: number; fault: string }[] = []
  let allowed = 0
  let longestMs = 0
  for (let seed = firstSeed; seed < firstSeed + count; seed += 1) {
    const text = mutatedReview(seed)
    const sinceMs = clock()
    try {
      const parsed = parseReview(JSON.parse(text))
      if (!('review' in parsed)) throw new Error('no review')
      const verdict = mutate(parsed.review, engine, { controllers: [] }, noPermissions)
      const answer = JSON.stringify(answerReview(parsed.review, verdict))
      const tookMs = clock() - sinceMs
      longestMs = Math.max(longestMs, tookMs)
      if (verdict.allowed) allowed += 1
      const fault =
        faultOf(answer, `uid-${seed}`) ?? (tookMs > maxAnswerMs ? `took ${Math.round(tookMs)} ms` : undefined)
      if (fault !== undefined) faults.push({ seed, fault })
    } catch (error) {
      faults.push({ seed, fault: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
    if (faults.length > 20) break
  }
  if (shapeOfPrototypes() !== before) faults.push({ seed: firstSeed, fault: 'a prototype was touched' })
  return { reviews: count, allowed, longestMs, faults }
}
