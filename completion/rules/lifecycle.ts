import { forbidden, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

export const lifecycleActions: Rule = {
  id: 'lifecycle-actions',
  description: 'A lifecycle action must be `destroy` or `restart`; `onCrash` also supports `preserve` and core dumps.',
  *check({ domain: { onPoweroff, onReboot, onCrash } }): Iterable<Finding> {
    for (const [key, action] of Object.entries({ onPoweroff, onReboot, onCrash })) {
      const field = `spec.domain.${key}`
      if (action === 'rename-restart') {
        yield unsupported(field, action, 'is not supported by QEMU', 'did you mean "restart"?')
      }
      if (action === 'preserve' && key !== 'onCrash') {
        yield unsupported(field, action, 'is only supported for onCrash', 'use destroy or restart')
      }
    }
    if (onReboot === 'destroy' && onPoweroff === 'restart') {
      yield forbidden('spec.domain.onPoweroff', onPoweroff, 'must not be restart when onReboot is destroy')
    }
  },
  example: example({ onReboot: 'preserve' }, { onReboot: 'destroy', onCrash: 'preserve' }),
}
