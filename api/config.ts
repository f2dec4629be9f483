import type { Cause } from './cause.ts'
import { checkMetadata } from './metadata.ts'
import type { Condition, ObjectMeta } from './object.ts'
import { checkSchema, isRecord, open } from './schema.ts'
import { checkTemplate, templateDomainCauses, templateSchema } from './template.ts'
import type { MachineTemplate } from './template.ts'

export const configPhases = ['Stopped', 'Starting', 'Running', 'Stopping', 'Failed'] as const
export type ConfigPhase = (typeof configPhases)[number]

/**
 * The wish for another instance in place of the one with this uid. It is written before that one is touched, and goes when the other is there. `stop` does not take it
 * away but calls it off: only the controller, which may be making the other at this moment, can tell when there is none any more.
 */
export interface RestartWish {
  readonly uid: string
  readonly requestedAt: string
  readonly gracePeriodSeconds?: number
  readonly calledOff?: boolean
}

export interface ConfigStatus {
  readonly observedGeneration?: number
  readonly phase?: ConfigPhase
  /** The VM, while there is one. */
  readonly instance?: { readonly name: string; readonly uid: string; readonly nodeName?: string }
  /** Whether that VM was made of another template than there is now. */
  readonly outdated?: boolean
  readonly restart?: RestartWish
  readonly conditions?: readonly Condition[]
}

/** A VM at rest: it is while the machine is off, and its `start` makes the VM. */
export interface VirtualMachineConfig {
  readonly apiVersion: 'virtset.io/v1alpha1'
  readonly kind: 'VirtualMachineConfig'
  readonly metadata: ObjectMeta
  readonly spec: { readonly template: MachineTemplate }
  readonly status?: ConfigStatus
}

export const configSpecSchema = open('The machine as it is when it is started.', { template: templateSchema }, [
  'template',
])

/** The door for a config: everything that is wrong with its shape, and with its template by itself. */
export function parseConfig(value: unknown): { readonly config: VirtualMachineConfig } | { readonly causes: Cause[] } {
  if (!isRecord(value)) {
    return {
      causes: [{ rule: 'type', field: '', value, reason: 'FieldValueTypeInvalid', message: 'must be an object' }],
    }
  }
  const { metadata, spec } = value
  const shape = [...checkMetadata(metadata, 'metadata'), ...checkSchema(configSpecSchema, spec ?? {}, 'spec')]
  const causes = [...shape, ...templateDomainCauses(isRecord(spec) ? spec['template'] : undefined, 'spec.template')]
  if (shape.length > 0) return { causes }
  const config = value as unknown as VirtualMachineConfig
  causes.push(...checkTemplate(config.spec.template, 'spec.template'))
  return causes.length > 0 ? { causes } : { config }
}
