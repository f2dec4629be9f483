import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../../api/cause.ts'
import { firstTemplate, parseGroup } from '../../api/group.ts'
import type { VirtualMachineGroup } from '../../api/group.ts'
import { compileSelector, requirementText, selectorText, unmetRequirement } from '../../presets/selector.ts'
import type { KindHandler } from './kind.ts'
import { templateHandler } from './template.ts'

export const group: KindHandler = templateHandler(({ object, oldObject }) => {
  const parsed = parseGroup(object)
  if ('causes' in parsed) return parsed
  return { template: firstTemplate(parsed.group), causes: selectorCauses(parsed.group, oldObject) }
})

function selectorCauses({ spec }: VirtualMachineGroup, oldObject: unknown): Cause[] {
  const { selector, template } = spec
  const compiled = compileSelector(selector)
  const { labels = {} } = template.metadata ?? {}
  const unmet = unmetRequirement(compiled, labels)
  const stored = parseGroup(oldObject)
  return [
    ...(unmet === undefined ? [] : [templateNotSelected(labels, requirementText(unmet))]),
    ...('group' in stored && !isDeepStrictEqual(stored.group.spec.selector, selector)
      ? [selectorChanged(selectorText(compiled))]
      : []),
  ]
}

const templateNotSelected = (value: object, requirement: string): Cause => ({
  rule: 'selector-template',
  field: 'spec.template.metadata.labels',
  value,
  reason: 'FieldValueInvalid',
  message: `must match spec.selector, which requires ${requirement}`,
})

const selectorChanged = (value: string): Cause => ({
  rule: 'selector-immutable',
  field: 'spec.selector',
  value,
  reason: 'FieldValueInvalid',
  message: 'is immutable: with another selector the group would lose its VMs',
})
