import { randomUUID } from 'node:crypto'
import type { Domain } from '../api/domain/domain.ts'
import { completedByAnnotation, excludePresetsAnnotation, type VirtualMachine } from '../api/machine.ts'
import type { ObjectMeta } from '../api/object.ts'
import { isRecord } from '../api/schema.ts'
import { cast, draw, marked, mouldOf, type Mould } from '../completion/alike.ts'
import type { Completed, CompleteOptions } from '../completion/complete.ts'
import { valueAtKeys } from '../completion/origins.ts'
import { selects, type Candidates } from '../presets/candidates.ts'
import type { QuarantinedPreset } from '../presets/compile.ts'
import { auditAnnotations } from './audit.ts'
import { createMemory } from './memory.ts'
import { encode, patchBetween, type Patch } from './patch.ts'
import type { Audit, Review } from './review.ts'

/** A fleet is made of a few kinds of VMs. Each takes some 40 KB of heap. */
const maxKept = 256
/** Of a likeness: larger VMs are rare, and have no like. */
const maxCharacters = 64 * 1024

export interface LikenessOptions extends CompleteOptions {
  readonly presets: Pick<Candidates, 'select' | 'revision'>
  readonly quarantined: readonly QuarantinedPreset[]
}

/** What comes of a VM that is like an earlier one. */
export interface Alike {
  readonly patch: Patch
  /** What was told of the earlier one is true of this one. */
  readonly completed: Completed
  readonly audit: Audit
  /** The UUID of its domain. */
  readonly uuid: string
  /** The whole VM, put together where somebody asks. */
  readonly machine: () => VirtualMachine
}

export interface Likenesses {
  /** @param isTrusted whether the user of the review may write what is reserved */
  find(review: Review, isTrusted: boolean, optionsFor: (machine: VirtualMachine) => LikenessOptions): Alike | undefined
  /** @param completed what came of the VM of this review, as it is to be stored */
  keep(review: Review, isTrusted: boolean, completed: Completed, options: LikenessOptions): void
}

/**
 * What is worked out once for all VMs that are alike: the replicas of a group, the starts of a config, what is tried by dry run and then applied. They differ in
 * name and identity only, so the patch of one stands for all, with what is drawn in its places. Nothing goes stale: it does so as long as the very same
 * revisions of presets match and the nodes can do the same.
 */
export function createLikenesses(): Likenesses {
  const all = createMemory<Kept>(maxKept)
  return {
    find(review, isTrusted, optionsFor) {
      const likeness = likenessOf(review, isTrusted)
      const kept = likeness === undefined ? undefined : all.get(likeness)
      if (likeness === undefined || kept === undefined) return undefined
      // To the letter what was a VM before.
      const sent = review.object as VirtualMachine
      const options = optionsFor(sent)
      if (!isSame(kept, review, options)) return undefined
      const form = (kept.form ??= formOf(kept, options))
      if (form === none) return undefined
      const { mould } = form
      const { name } = sent.metadata
      const drawn = draw(mould, sent.metadata, options)
      return {
        patch: form.write(drawn),
        audit: form.audit,
        completed: mould.completed,
        uuid: drawn.uuid ?? '',
        machine: () => cast(mould, name, drawn),
      }
    },
    keep(review, isTrusted, completed, options) {
      const likeness = likenessOf(review, isTrusted)
      const circumstances = circumstancesOf(review, options)
      if (likeness === undefined || circumstances === undefined) return
      const sent = review.object as VirtualMachine
      all.set(likeness, { completed, sent, circumstances, moment: momentOf(options), form: undefined })
    },
  }
}

interface Kept {
  readonly completed: Completed
  readonly sent: VirtualMachine
  readonly circumstances: ReadonlySet<unknown>
  /** When they were looked at last. */
  moment: string
  /** Made where a second VM comes. */
  form: Form | typeof none | undefined
}

interface Form {
  readonly mould: Mould
  /** The patch for a VM for which this domain was drawn. */
  readonly write: (drawn: Domain) => Patch
  readonly audit: Audit
}

/** Of a VM in which there is more that is its own. */
const none = Symbol('none')

function formOf({ completed, sent }: Kept, options: LikenessOptions): Form | typeof none {
  const mould = mouldOf(completed, options)
  if (mould === undefined) return none
  const write = writerOf(mould, sent)
  return write === undefined ? none : { mould, write, audit: auditAnnotations(completed) }
}

/** Names in which nothing is that a rule of the domain objects to. */
const plainName = /^[a-z0-9][-a-z0-9.]*$/

/** What VMs that are alike have in common, as text; undefined for a VM that is like no other. What stands in it was found to be well with the first of them. */
function likenessOf({ namespace, object }: Review, isTrusted: boolean): string | undefined {
  if (!isRecord(object) || !isRecord(object['metadata'])) return undefined
  const { name, generateName, uid, namespace: within } = object['metadata']
  const called = name ?? generateName
  if (typeof called !== 'string' || !plainName.test(called)) return undefined
  if ([generateName, uid, within].some((one) => one !== undefined && typeof one !== 'string')) return undefined
  const { labels, annotations, finalizers, ownerReferences } = object['metadata']
  const text = JSON.stringify({
    namespace,
    isTrusted,
    labels,
    annotations,
    finalizers,
    ownerReferences,
    spec: object['spec'],
  })
  return text.length > maxCharacters ? undefined : text
}

function isSame(kept: Kept, review: Review, options: LikenessOptions): boolean {
  const moment = momentOf(options)
  if (kept.moment === moment && kept.circumstances.has(options.capabilities)) return true
  const circumstances = circumstancesOf(review, options)
  if (circumstances === undefined || kept.circumstances.symmetricDifference(circumstances).size > 0) return false
  kept.moment = moment
  return true
}

/** As long as this is the same, the same presets match. */
const momentOf = ({ presets, namespace, quarantined }: LikenessOptions): string =>
  `${presets.revision()} ${quarantined.length} ${JSON.stringify(namespace.labels)}`

/**
 * What, beside the VM itself, its completion depends on: the capabilities and the presets that match, each the object of one revision. Undefined where it
 * depends on more: on who asks, on what presets' conditions see, on what another completion claims.
 */
function circumstancesOf({ object }: Review, options: LikenessOptions): ReadonlySet<unknown> | undefined {
  const { labels = {}, annotations = {} }: ObjectMeta = (object as VirtualMachine).metadata
  const { presets, quarantined, namespace, capabilities, without = [] } = options
  if (annotations[completedByAnnotation] !== undefined || annotations[excludePresetsAnnotation] !== undefined)
    return undefined
  const isTold = ({ selector, ...scope }: QuarantinedPreset) =>
    selector !== undefined && selects({ ...scope, selector }, labels, namespace)
  if (without.length > 0 || quarantined.some(isTold)) return undefined
  const matching = presets.select(labels, namespace)
  return matching.some(({ conditions }) => conditions.length > 0) ? undefined : new Set([capabilities, ...matching])
}

/** The patch as text with a gap for each leaf that is drawn. */
function writerOf(mould: Mould, sent: VirtualMachine): Form['write'] | undefined {
  const marks = mould.drawn.map(() => randomUUID())
  const operations = patchBetween({ ...sent }, { ...marked(mould, marks) })
  if (operations.some(({ path }) => path === '/metadata')) return undefined
  const text = JSON.stringify(operations)
  const gaps = marks
    .map((mark, index) => ({ begin: text.indexOf(`"${mark}"`), keys: mould.drawn[index] ?? [] }))
    .toSorted((one, other) => one.begin - other.begin)
  if (gaps.some(({ begin }) => begin < 0)) return undefined
  const endOf = (begin = -markLength) => begin + markLength
  const pieces = gaps.map(({ begin, keys }, at) => ({
    before: encode(inThrees(text.slice(endOf(gaps[at - 1]?.begin), begin))),
    keys,
  }))
  const rest = encode(text.slice(endOf(gaps.at(-1)?.begin)))
  return (drawn) => {
    let encoded = ''
    for (const { before, keys } of pieces)
      encoded += before + encode(inThrees(JSON.stringify(valueAtKeys(drawn, keys))))
    return { operations: operations.length, encoded: encoded + rest }
  }
}

/** With space at its end, which JSON allows: three bytes are four characters of base64, so that pieces are encoded one by one. */
const inThrees = (text: string): string => text + ' '.repeat((3 - (Buffer.byteLength(text) % 3)) % 3)

/** Of a UUID in quotes. */
const markLength = 38
