import fastJsonPatch from 'fast-json-patch'
import type { Cause } from '../api/cause.ts'
import { isRecord } from '../api/schema.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { createEngine } from '../webhooks/engine.ts'
import { systemClock } from '../runtime/clock.ts'
import { cachesWithout } from '../webhooks/caches.ts'
import { noPermissions } from '../webhooks/permission.ts'
import type { Operation } from '../webhooks/patch.ts'
import { answerReview, parseReview } from '../webhooks/review.ts'
import { mutate, validate } from '../webhooks/verdict.ts'
import { chance, exampleSpecs, type Chance } from './chance.ts'
import { operationsOf } from './operations.ts'

const { applyPatch } = fastJsonPatch

/** What came out of many mutated reviews. */
export interface FuzzReport {
  /** Answered by either endpoint: each seed makes two, or four where what it makes is stored and then changed. */
  readonly reviews: number
  readonly allowed: number
  /** Of the longest answer, in milliseconds. */
  readonly longestMs: number
  /** What was not as it has to be: the seed of the review, and what is wrong. */
  readonly faults: readonly { readonly seed: number; readonly fault: string }[]
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

const matchLabels = { app: 'web' }

/** A whole `spec` of each kind, around the spec of a VM. */
const kinds: { readonly [kind: string]: (machine: { readonly [key: string]: unknown }) => object } = {
  VirtualMachine: (machine) => machine,
  VirtualMachineConfig: (machine) => ({ template: { metadata: { labels: matchLabels }, spec: machine } }),
  VirtualMachineGroup: (machine) => ({
    replicas: 2,
    selector: { matchLabels },
    template: { metadata: { labels: matchLabels }, spec: machine },
  }),
  VirtualMachinePreset: (machine) => ({
    selector: { matchLabels },
    matchConditions: [{ name: 'small', expression: 'size(object.spec) < 9' }],
    ...machine,
  }),
  ClusterVirtualMachinePreset: (machine) => ({
    selector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] },
    namespaceSelector: {},
    strength: 'Enforce',
    priority: 3,
    remove: ['domain.devices.disks[target.dev=vdb]', 'domain.clock.timers[0]'],
    ...machine,
  }),
}

/** Most reviews are about VMs. */
const drawnKinds = [...Object.keys(kinds), ...Array.from({ length: 5 }, () => 'VirtualMachine')]

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

/** The text of a review, of which the object was changed in some places at random, and with UPDATE also what is stored. */
export function mutatedReview(seed: number): string {
  const { random, pick } = chance(seed)
  const kind = pick(drawnKinds) ?? 'VirtualMachine'
  const machine = structuredClone(pick(exampleSpecs))
  const metadata = {
    name: 'vm',
    ...(kind.startsWith('Cluster') ? {} : { namespace: 'default' }),
    labels: matchLabels,
    annotations: { 'example.org/note': '' },
  }
  // Nothing that is shared may be changed, or a seed would not tell what review it makes.
  const spec = structuredClone(kinds[kind]?.(isRecord(machine) ? machine : {}))
  const object = { apiVersion: 'virtset.io/v1alpha1', kind, metadata: structuredClone(metadata), spec }
  const oldObject = random() < 0.25 ? structuredClone(object) : undefined
  for (let count = Math.floor(random() * 5); count > 0; count -= 1) {
    mutateOnce(random() < 0.1 ? object : spec, { random, pick })
  }
  // Nothing says that what is stored would still be let in.
  if (random() < 0.5) mutateOnce(oldObject?.spec, { random, pick })
  return JSON.stringify({
    apiVersion: 'admission.k8s.io/v1',
    kind: 'AdmissionReview',
    request: {
      uid: `uid-${seed}`,
      kind: { group: 'virtset.io', version: 'v1alpha1', kind },
      resource: { group: 'virtset.io', version: 'v1alpha1', resource: `${kind.toLowerCase()}s` },
      name: 'vm',
      ...(kind.startsWith('Cluster') ? {} : { namespace: 'default' }),
      operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
      userInfo: { username: 'jane' },
      object,
      ...(oldObject === undefined ? {} : { oldObject }),
    },
  })
}

function mutateOnce(spec: unknown, { random, pick }: Chance): void {
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
    const other: unknown = structuredClone(pick(exampleSpecs))
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

/** Presets that take part in the VMs: the merge meets what is odd as well. */
const present = [
  {
    kind: 'VirtualMachinePreset',
    metadata: { name: 'serial', namespace: 'default' },
    spec: {
      selector: { matchLabels },
      domain: { devices: { serials: [{ type: 'pty' }], disks: [{ target: { dev: '*' }, driver: { cache: 'none' } }] } },
    },
  },
  {
    kind: 'ClusterVirtualMachinePreset',
    metadata: { name: 'site' },
    spec: {
      selector: {},
      matchConditions: [{ name: 'named', expression: 'object.metadata.name != "" && request.uid != "x"' }],
      strength: 'Enforce',
      domain: { clock: { offset: 'utc' }, devices: { video: { model: { type: 'virtio' } } } },
      remove: ['domain.devices.tpms[0]'],
    },
  },
]

function fuzzedEngine() {
  const compiled = present.map((preset) => compilePreset({ apiVersion: 'virtset.io/v1alpha1', ...preset }))
  const candidates = createCandidates(compiled.flatMap((one) => ('preset' in one ? [one.preset] : [])))
  return createEngine({ ...cachesWithout(systemClock), candidates }, () => Promise.resolve(false))
}

/**
 * Sends mutated reviews through both endpoints of admission, from the bytes to the bytes; what `/mutate` lets through goes on to `/validate` as it
 * was patched, and may not be refused there.
 * @param firstSeed the same seeds make the same reviews
 */
export function fuzz(firstSeed: number, count: number, clock: () => number): FuzzReport {
  const engine = fuzzedEngine()
  const before = shapeOfPrototypes()
  const faults: { seed: number; fault: string }[] = []
  let reviews = 0
  let allowed = 0
  let longestMs = 0
  const answer = (judge: typeof mutate, seed: number, text: string) => {
    reviews += 1
    const sinceMs = clock()
    const parsed = parseReview(JSON.parse(text))
    if (!('review' in parsed)) throw new Error('no review')
    const verdict = judge(parsed.review, engine, { controllers: [] }, noPermissions)
    const said = JSON.stringify(answerReview(parsed.review, verdict))
    const tookMs = clock() - sinceMs
    longestMs = Math.max(longestMs, tookMs)
    const fault = faultOf(said, `uid-${seed}`) ?? (tookMs > maxAnswerMs ? `took ${Math.round(tookMs)} ms` : undefined)
    if (fault !== undefined) faults.push({ seed, fault })
    return verdict
  }
  /** @returns the object as it would be stored; undefined where it is refused */
  const review = (seed: number, text: string): unknown => {
    const mutated = answer(mutate, seed, text)
    const sentOn = patched(text, operationsOf(mutated))
    const validated = answer(validate, seed, sentOn)
    if (!mutated.allowed) return undefined
    allowed += 1
    const { operation, object } = JSON.parse(sentOn).request
    if (validated.allowed) return object
    if (operation === 'CREATE') faults.push({ seed, fault: `let through, then refused: ${shown(validated.causes)}` })
    return undefined
  }
  for (let seed = firstSeed; seed < firstSeed + count && faults.length <= 20; seed += 1) {
    const text = mutatedReview(seed)
    try {
      const stored = review(seed, text)
      if (stored !== undefined) review(seed, updateReview(seed, text, stored))
    } catch (error) {
      faults.push({ seed, fault: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  }
  if (shapeOfPrototypes() !== before) faults.push({ seed: firstSeed, fault: 'a prototype was touched' })
  return { reviews, allowed, longestMs, faults }
}

const shown = (causes: readonly Cause[]): string => causes.map(({ field, message }) => `${field} ${message}`).join('; ')

/** The review of what somebody makes of an object that is stored. */
function updateReview(seed: number, text: string, stored: unknown): string {
  const object = structuredClone(stored)
  mutateOnce(object, chance(-seed))
  const review = JSON.parse(text)
  return JSON.stringify({ ...review, request: { ...review.request, operation: 'UPDATE', object, oldObject: stored } })
}

/** The review as the API server sends it on once the object was patched. */
export function patched(text: string, operations: readonly Operation[]): string {
  const review = JSON.parse(text)
  const { newDocument } = applyPatch(review.request.object, structuredClone([...operations]), false, true, false)
  return JSON.stringify({ ...review, request: { ...review.request, object: newDocument } })
}
