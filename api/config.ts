import type { Cause } from './cause.ts'
import { wrongType } from './field-error.ts'
import { checkClaimTemplates, configClaimFields, type ClaimTemplates } from './claim-template.ts'
import { checkMetadata } from './metadata.ts'
import type { Condition, ObjectMeta } from './object.ts'
import { checkSchema, isRecord, open } from './schema.ts'
import { checkTemplate, templateDomainCauses, templateSchema } from './template.ts'
import type { VirtualMachineTemplate } from './template.ts'

export const configPhases = ['Stopped', 'Starting', 'Running', 'Stopping', 'Failed', 'Unknown'] as const
export type ConfigPhase = (typeof configPhases)[number]

/**
 * A request to replace the VM with this UID by a new one. It is written before the old VM is deleted, and removed when
 * the new VM exists. `stop` cancels the request instead of removing it: the controller may be creating the new VM at
 * this moment, and only it knows when no VM remains.
 */
export interface RestartRequest {
  readonly uid: string
  readonly requestedAt: string
  readonly gracePeriodSeconds?: number
  readonly cancelled?: boolean
}

export interface ConfigStatus {
  readonly observedGeneration?: number
  readonly phase?: ConfigPhase
  /** The VM; absent while stopped. */
  readonly instance?: { readonly name: string; readonly uid: string; readonly nodeName?: string }
  /** Whether that VM was created from an older template. */
  readonly outdated?: boolean
  readonly restart?: RestartRequest
  readonly conditions?: readonly Condition[]
}

/** The definition of a VM, which exists while the VM is off. Its `start` subresource creates the VM. */
export interface VirtualMachineConfig {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachineConfig'
  readonly metadata: ObjectMeta
  readonly spec: ClaimTemplates & { readonly template: VirtualMachineTemplate }
  readonly status?: ConfigStatus
}

export const configSpecSchema = open(
  'The definition that each start creates the VM from.',
  { template: templateSchema, ...configClaimFields },
  ['template'],
)

/** Parses a config. Reports everything that is wrong with its shape and with its template. */
export function parseConfig(value: unknown): { readonly config: VirtualMachineConfig } | { readonly causes: Cause[] } {
  if (!isRecord(value)) return { causes: [wrongType('', value, 'an object')] }
  const { metadata, spec } = value
  const shape = [...checkMetadata(metadata, 'metadata'), ...checkSchema(configSpecSchema, spec ?? {}, 'spec')]
  const causes = [...shape, ...templateDomainCauses(isRecord(spec) ? spec['template'] : undefined, 'spec.template')]
  if (shape.length > 0) return { causes }
  const config = value as unknown as VirtualMachineConfig
  causes.push(...checkTemplate(config.spec.template, 'spec.template'))
  causes.push(...checkClaimTemplates(config.metadata, config.spec, config.spec.template, 'spec.claimTemplates'))
  return causes.length > 0 ? { causes } : { config }
}
