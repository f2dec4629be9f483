import fastJsonPatch from 'fast-json-patch'
import type { Cause } from '../api/cause.ts'
import { isRecord } from '../api/schema.ts'
import { createCandidates } from '../presets/candidates.ts'
import { compilePreset } from '../presets/compile.ts'
import { createEngine } from '../webhooks/admission/engine.ts'
import { systemClock } from '../runtime/clock.ts'
import { cachesWithout } from '../webhooks/admission/caches.ts'
import { noPermissions } from '../webhooks/admission/permission.ts'
import type { Operation } from '../webhooks/admission/patch.ts'
import { admissionReviewOf, parseAdmissionReview } from '../webhooks/admission/request.ts'
import { mutate, validate } from '../webhooks/admission/handler.ts'
import { chance, exampleSpecs, type Chance } from './chance.ts'
import { operationsOf } from './operations.ts'

const { applyPatch } = fastJsonPatch

/** The result of many mutated requests. */
export interface FuzzReport {
  /** Requests to both endpoints: two for each seed, or four if its object is stored and then changed. */
  readonly requests: number
  readonly allowed: number
  /** The longest duration of a request in milliseconds. */
  readonly longestMs: number
  /** Failures: the seed of the request, and what is wrong. */
  readonly faults: readonly { readonly seed: number; readonly fault: string }[]
}

/** Values that break code that is not prepared for them. */
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

/** The `spec` of each kind for the spec of a VM. */
const kinds: { readonly [kind: string]: (vm: { readonly [key: string]: unknown }) => object } = {
  VirtualMachine: (vm) => vm,
  VirtualMachineConfig: (vm) => ({ template: { metadata: { labels: matchLabels }, spec: vm } }),
  VirtualMachineGroup: (vm) => ({
    replicas: 2,
    selector: { matchLabels },
    template: { metadata: { labels: matchLabels }, spec: vm },
  }),
  VirtualMachinePreset: (vm) => ({
    selector: { matchLabels },
    matchConditions: [{ name: 'small', expression: 'size(object.spec) < 9' }],
    ...vm,
  }),
  ClusterVirtualMachinePreset: (vm) => ({
    selector: { matchExpressions: [{ key: 'app', operator: 'Exists' }] },
    namespaceSelector: {},
    strength: 'Enforce',
    priority: 3,
    remove: ['domain.devices.disks[target.dev=vdb]', 'domain.clock.timers[0]'],
    ...vm,
  }),
}

/** Most requests are for VMs. */
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

/** A request as text, with random changes of the object and, with UPDATE, of the stored one. */
export function mutatedReview(seed: number): string {
  const { random, pick } = chance(seed)
  const kind = pick(drawnKinds) ?? 'VirtualMachine'
  const vm = structuredClone(pick(exampleSpecs))
  const metadata = {
    name: 'vm',
    ...(kind.startsWith('Cluster') ? {} : { namespace: 'default' }),
    labels: matchLabels,
    annotations: { 'example.org/note': '' },
  }
  // Shared objects must not be changed, or a seed would not always generate the same request.
  const spec = structuredClone(kinds[kind]?.(isRecord(vm) ? vm : {}))
  const object = { apiVersion: 'virtset.io/v1alpha1', kind, metadata: structuredClone(metadata), spec }
  const oldObject = random() < 0.25 ? structuredClone(object) : undefined
  for (let count = Math.floor(random() * 5); count > 0; count -= 1) {
    mutateOnce(random() < 0.1 ? object : spec, { random, pick })
  }
  // What is stored would not necessarily be accepted today.
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

/** @param text the AdmissionReview as sent */
function faultOf(text: string, uid: string): string | undefined {
  const parsed: unknown = JSON.parse(text)
  const response = isRecord(parsed) ? parsed['response'] : undefined
  if (!isRecord(response)) return 'no response'
  const { allowed, status, patch, warnings = [] } = response
  if (response['uid'] !== uid) return 'another uid'
  if (text.length > 3 * 1024 * 1024) return 'a response that is too long'
  if (!Array.isArray(warnings) || warnings.some((one) => typeof one !== 'string' || one.length > 200))
    return 'malformed warnings'
  if (allowed === true) return patch === undefined || typeof patch === 'string' ? undefined : 'a malformed patch'
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

/** The limit for any request. */
const maxRequestMs = 100

/** Presets that select the VMs, so that the merge is tested with hostile values as well. */
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
 * Sends mutated requests as bytes through both endpoints of admission. What `/mutate` accepts is patched and sent to
 * `/validate`, which must not refuse it.
 * @param firstSeed the same seeds generate the same requests
 */
export function fuzz(firstSeed: number, count: number, clock: () => number): FuzzReport {
  const engine = fuzzedEngine()
  const before = shapeOfPrototypes()
  const faults: { seed: number; fault: string }[] = []
  let requests = 0
  let allowed = 0
  let longestMs = 0
  const send = (handle: typeof mutate, seed: number, text: string) => {
    requests += 1
    const sinceMs = clock()
    const parsed = parseAdmissionReview(JSON.parse(text))
    if (!('request' in parsed)) throw new Error(parsed.problem)
    const result = handle(parsed.request, engine, { controllers: [] }, noPermissions)
    const sent = JSON.stringify(admissionReviewOf(parsed.request, result))
    const tookMs = clock() - sinceMs
    longestMs = Math.max(longestMs, tookMs)
    const fault = faultOf(sent, `uid-${seed}`) ?? (tookMs > maxRequestMs ? `took ${Math.round(tookMs)} ms` : undefined)
    if (fault !== undefined) faults.push({ seed, fault })
    return result
  }
  /** @returns the object as it would be stored; undefined if it is refused */
  const admit = (seed: number, text: string): unknown => {
    const mutated = send(mutate, seed, text)
    const forwarded = patched(text, operationsOf(mutated))
    const validated = send(validate, seed, forwarded)
    if (!mutated.allowed) return undefined
    allowed += 1
    const { operation, object } = JSON.parse(forwarded).request
    if (validated.allowed) return object
    if (operation === 'CREATE') faults.push({ seed, fault: `accepted, then refused: ${shown(validated.causes)}` })
    return undefined
  }
  for (let seed = firstSeed; seed < firstSeed + count && faults.length <= 20; seed += 1) {
    const text = mutatedReview(seed)
    try {
      const stored = admit(seed, text)
      if (stored !== undefined) admit(seed, updateReview(seed, text, stored))
    } catch (error) {
      faults.push({ seed, fault: error instanceof Error ? (error.stack ?? error.message) : String(error) })
    }
  }
  if (shapeOfPrototypes() !== before) faults.push({ seed: firstSeed, fault: 'a prototype was polluted' })
  return { requests, allowed, longestMs, faults }
}

const shown = (causes: readonly Cause[]): string => causes.map(({ field, message }) => `${field} ${message}`).join('; ')

/** An UPDATE of a stored object. */
function updateReview(seed: number, text: string, stored: unknown): string {
  const object = structuredClone(stored)
  mutateOnce(object, chance(-seed))
  const review = JSON.parse(text)
  return JSON.stringify({ ...review, request: { ...review.request, operation: 'UPDATE', object, oldObject: stored } })
}

/** The request that the API server sends to `/validate` after it has patched the object. */
export function patched(text: string, operations: readonly Operation[]): string {
  const review = JSON.parse(text)
  const { newDocument } = applyPatch(review.request.object, structuredClone([...operations]), false, true, false)
  return JSON.stringify({ ...review, request: { ...review.request, object: newDocument } })
}
