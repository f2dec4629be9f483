import { forbidden, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

export const lifecycleActions: Rule = {
  id: 'lifecycle-actions',
  description: 'After its end a VM is destroyed or restarted; what has crashed may be kept as well.',
  *check({ domain: { onPoweroff, onReboot, onCrash } }): Iterable<Finding> {
    for (const [key, action] of Object.entries({ onPoweroff, onReboot, onCrash })) {
      const field = `spec.domain.${key}`
      if (action === 'rename-restart') {
        yield unsupported(field, action, 'is not possible with QEMU', 'did you mean "restart"?')
      }
      if (action === 'preserve' && key !== 'onCrash') {
        yield unsupported(field, action, 'is possible for onCrash only', 'destroy or restart')
      }
    }
    if (onReboot === 'destroy' && onPoweroff === 'restart') {
      yield forbidden('spec.domain.onPoweroff', onPoweroff, 'cannot be restart where onReboot is destroy')
    }
  },
  example: example({ onReboot: 'preserve' }, { onReboot: 'destroy', onCrash: 'preserve' }),
}
