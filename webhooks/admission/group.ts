import { isDeepStrictEqual } from 'node:util'
import type { Cause } from '../../api/cause.ts'
import { firstTemplate, parseGroup } from '../../api/group.ts'
import type { VirtualMachineGroup } from '../../api/group.ts'
import { joinPath } from '../../api/path.ts'
import type { Completed } from '../../completion/complete.ts'
import { compileSelector, requirementText, selectorText, unmetRequirement } from '../../presets/selector.ts'
import type { Selector } from '../../presets/selector.ts'
import { originLabel } from '../../presets/source.ts'
import type { KindHandler } from './kind.ts'
import { templateHandler } from './template.ts'

export const group: KindHandler = templateHandler(({ object, oldObject }) => {
  const parsed = parseGroup(object)
  if ('causes' in parsed) return parsed
  const causes = selectorCauses(parsed.group, oldObject)
  const selector = compileSelector(parsed.group.spec.selector)
  return {
    template: firstTemplate(parsed.group),
    causes,
    ...(causes.length === 0 ? { check: (completed: Completed) => vmNotSelected(selector, completed) } : {}),
  }
})

/** The group would delete each VM and create the next. Only presets can change the labels of its template. */
function vmNotSelected(selector: Selector, { vm, origins }: Completed): Cause[] {
  const { labels = {} } = vm.metadata
  const unmet = unmetRequirement(selector, labels)
  if (unmet === undefined) return []
  const field = joinPath('metadata.labels', unmet.key)
  const origin = origins.get(field)
  const preset = origin?.by === 'preset' ? `preset "${originLabel(origin)}" sets` : 'a preset sets'
  return [
    {
      rule: 'selector-preset',
      field,
      value: labels[unmet.key],
      reason: 'FieldValueInvalid',
      ...(origin === undefined ? {} : { origin }),
      message: `${preset} this label, but spec.selector requires ${requirementText(unmet)}: the group could never have a VM`,
      suggestion: 'change spec.selector and the labels of the template, or the selector of the preset',
    },
  ]
}

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
