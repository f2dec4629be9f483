import type { Cause } from '../api/cause.ts'
import { completedByAnnotation } from '../api/virtual-machine.ts'
import type { Engine } from '../webhooks/admission/engine.ts'
import { patchBetween, writePatch } from '../webhooks/admission/patch.ts'
import type { AdmissionRequest, AdmissionResult } from '../webhooks/admission/request.ts'
import { operationsOf } from './operations.ts'

const nothingElse = {
  outcome: 'completed',
  origins: new Map(),
  overridden: new Map(),
  removed: new Map(),
  skipped: [],
  audit: [],
  participants: [],
  warnings: [],
} as const

/** Provenance in which the title alone is a default. */
export const titleProvenance = '{"v":1,"by":["title"],"at":{"spec":{"domain":{"title":0}}}}'

const badTitle: Cause = {
  rule: 'title',
  field: 'spec.domain.title',
  reason: 'FieldValueInvalid',
  message: 'is bad',
}

/** Adds a title if there is none and refuses the title `bad`, each with a warning and an audit annotation. */
export const titleEngine: Engine = {
  ready: () => undefined,
  permissions: () => undefined,
  expectPreset() {},
  wasCompletedHere: () => false,
  patch: (before, after) => writePatch(patchBetween(before, after)),
  complete(vm) {
    if (vm.spec.domain.title === 'bad') return { causes: [badTitle], warnings: ['refused'], audit: { title: 'bad' } }
    const annotations = { ...vm.metadata.annotations, [completedByAnnotation]: titleProvenance }
    const domain = { title: 'added', ...vm.spec.domain }
    const whole = { ...vm, metadata: { ...vm.metadata, annotations }, spec: { ...vm.spec, domain } }
    return { completed: { ...nothingElse, vm: whole }, warnings: ['completed'], audit: { title: 'good' } }
  },
  attachmentWarnings: () => [],
  checkPreset: ({ spec: { domain } }) => ({
    causes: domain?.title === 'bad' ? [badTitle] : [],
    warnings: ['checked'],
  }),
}

export const controllerAccount = 'system:serviceaccount:virtset-system:virtset-controller'
export const trust = { controllers: [controllerAccount] }

export const admissionRequest = (
  kind: string,
  object: unknown,
  oldObject?: unknown,
  more: Partial<AdmissionRequest> = {},
): AdmissionRequest => ({
  uid: 'u-1',
  kind,
  name: 'vm1',
  namespace: 'default',
  operation: oldObject === undefined ? 'CREATE' : 'UPDATE',
  user: { username: 'jane', groups: [] },
  isDryRun: false,
  object,
  oldObject,
  request: {},
  ...more,
})

/** Causes as `rule field`, operations of a patch as `op path`, or `allowed`. */
export function outcomeOf(result: AdmissionResult): readonly string[] {
  if (!result.allowed) return result.causes.map(({ rule, field }) => `${rule} ${field}`)
  const operations = operationsOf(result)
  return operations.length > 0 ? operations.map(({ op, path }) => `${op} ${path}`) : ['allowed']
}
