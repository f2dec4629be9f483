import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../../api/cause.ts'
import { apiVersion } from '../../api/object.ts'
import { isRecord } from '../../api/schema.ts'
import type { VirtualMachineTemplate } from '../../api/template.ts'
import { completeRequest } from './complete-request.ts'
import type { Engine } from './engine.ts'
import { isReleased, refuse, type Handle, type KindHandler } from './kind.ts'
import type { Permissions } from './permission.ts'
import type { AdmissionRequest } from './request.ts'

/** The result of parsing the owner of a template. Without a template, the owner is malformed. */
export interface ParsedOwner {
  readonly template?: VirtualMachineTemplate
  readonly causes: readonly Cause[]
}

/**
 * Handles a kind with a template for VMs. The template is completed as a dry run, and each cause points to its place in
 * the template. The template itself is not changed, so that a manifest in git and the stored object never differ. An
 * unchanged template is not completed again: a preset created since must not block scaling.
 */
export function templateHandler(parse: (request: AdmissionRequest) => ParsedOwner): KindHandler {
  const check: Handle = (request, engine, _trust, permissions) => {
    if (isReleased(request)) return { allowed: true }
    const { template, causes } = parse(request)
    const isUnchanged = isDeepStrictEqual(templateIn(request.object), templateIn(request.oldObject))
    const { causes: found, warnings } = isUnchanged
      ? nothingFound
      : template === undefined
        ? findInMalformed(request, engine, permissions)
        : dryRun(template, request, engine, permissions)
    const all = [...causes, ...found.map(inTemplate)]
    return all.length > 0 ? refuse(all, warnings) : { allowed: true, warnings }
  }
  return { mutate: check, validate: check, authorize: requestForTemplate }
}

/** The request to create the VM of the template, for which the user needs the same permissions. */
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
function findInMalformed(request: AdmissionRequest, engine: Engine, permissions: Permissions): Findings {
  const { causes } = completeRequest(requestForTemplate(request), engine, permissions, true)
  return { causes, warnings: [] }
}

function dryRun(
  { metadata, spec }: VirtualMachineTemplate,
  request: AdmissionRequest,
  engine: Engine,
  permissions: Permissions,
): Findings {
  const { name, namespace } = request
  const vm = {
    apiVersion,
    kind: 'VirtualMachine',
    metadata: { ...metadata, name: name || 'vm', namespace },
    spec,
  } as const
  const outcome = engine.complete(vm, requestForTemplate(request), permissions)
  return { causes: 'causes' in outcome ? outcome.causes : [], warnings: outcome.warnings }
}

/** `spec.domain…` of the VM is `spec.template.spec.domain…` of its owner. */
const inTemplate = (cause: Cause): Cause => ({ ...cause, field: `spec.template.${cause.field}` })

const templateIn = (object: unknown): unknown =>
  isRecord(object) && isRecord(object['spec']) ? object['spec']['template'] : undefined
