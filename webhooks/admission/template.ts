import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../../api/cause.ts'
import { apiVersion } from '../../api/object.ts'
import { isRecord } from '../../api/schema.ts'
import type { VirtualMachineTemplate } from '../../api/template.ts'
import type { Completed } from '../../completion/complete.ts'
import { exemptionMissing } from '../../presets/exclude.ts'
import { completeRequest } from './complete-request.ts'
import type { Engine } from './engine.ts'
import { isReleased, refuse, type Handle, type KindHandler } from './kind.ts'
import { noPermissions } from './permission.ts'
import type { AdmissionRequest } from './request.ts'

/** The result of parsing the owner of a template. Without a template, the owner is malformed. */
export interface ParsedOwner {
  readonly template?: VirtualMachineTemplate
  readonly causes: readonly Cause[]
  /** Why the owner could not use the VM of the template as presets complete it. */
  readonly check?: (completed: Completed) => readonly Cause[]
}

/**
 * Handles a kind with a template for VMs. The template is completed as a dry run, and each cause points to its place in
 * the template. The template itself is not changed, so that a manifest in git and the stored object never differ. If the
 * template and the claims of its VM are unchanged, it is not completed again: a preset created since must not block
 * scaling.
 */
export function templateHandler(parse: (request: AdmissionRequest) => ParsedOwner): KindHandler {
  const check: Handle = (request, engine) => {
    if (isReleased(request)) return { allowed: true }
    const { template, causes, check: checkVm } = parse(request)
    const isUnchanged = isDeepStrictEqual(partsOfVm(request.object), partsOfVm(request.oldObject))
    const { causes: found, warnings } = isUnchanged
      ? nothingFound
      : template === undefined
        ? findInMalformed(request, engine)
        : dryRun(template, request, engine, checkVm)
    const all = [...causes, ...found.map(inTemplate)]
    return all.length > 0 ? refuse(all, warnings) : { allowed: true, warnings }
  }
  return { mutate: check, validate: check, appliesPresets: () => true }
}

/**
 * The request to create the VM of the template. virtset creates that VM later, and a stored template does not prove who
 * wrote it. So the exemptions of the user who sends it do not count.
 */
export function requestForTemplate(request: AdmissionRequest): AdmissionRequest {
  const template = templateIn(request.object)
  const metadata = isRecord(template) && isRecord(template['metadata']) ? template['metadata'] : {}
  const spec = isRecord(template) ? template['spec'] : undefined
  const object = { apiVersion, kind: 'VirtualMachine', metadata: { name: request.name || 'vm', ...metadata }, spec }
  return { ...request, kind: 'VirtualMachine', operation: 'CREATE', object, oldObject: undefined }
}

interface Findings {
  readonly causes: readonly Cause[]
  readonly warnings: readonly string[]
}

const nothingFound: Findings = { causes: [], warnings: [] }

/** The rules' findings in the valid part of a malformed template. */
function findInMalformed(request: AdmissionRequest, engine: Engine): Findings {
  const { causes } = completeRequest(requestForTemplate(request), engine, noPermissions, true)
  return { causes, warnings: [] }
}

function dryRun(
  { metadata, spec }: VirtualMachineTemplate,
  request: AdmissionRequest,
  engine: Engine,
  checkVm: NonNullable<ParsedOwner['check']> = () => [],
): Findings {
  const { name, namespace } = request
  const vm = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { ...metadata, name: name || 'vm', namespace },
    spec,
  } as const
  const outcome = engine.complete(vm, requestForTemplate(request), noPermissions)
  const warnings = outcome.warnings.map((one) =>
    one.replace(exemptionMissing, 'a template can exclude only defaults of its namespace'),
  )
  return { causes: 'causes' in outcome ? outcome.causes : checkVm(outcome.completed), warnings }
}

/** `spec.domain…` of the VM is `spec.template.spec.domain…` of its owner. */
const inTemplate = (cause: Cause): Cause => ({ ...cause, field: `spec.template.${cause.field}` })

const templateIn = (object: unknown): unknown => specOf(object)['template']

/** What the VM of the template is made of. */
const partsOfVm = (object: unknown): readonly unknown[] => [templateIn(object), specOf(object)['claimTemplates']]

const specOf = (object: unknown): Readonly<Record<string, unknown>> =>
  isRecord(object) && isRecord(object['spec']) ? object['spec'] : {}
