import { testRule } from '../../test/rule-table.ts'

testRule('lifecycle-actions', [
  {
    refused: { onPoweroff: 'rename-restart' },
    causes: [
      'spec.domain.onPoweroff: Unsupported value: "rename-restart": is not supported by QEMU; did you mean "restart"?',
    ],
    accepted: { onPoweroff: 'restart' },
  },
  {
    refused: { onCrash: 'rename-restart' },
    causes: [
      'spec.domain.onCrash: Unsupported value: "rename-restart": is not supported by QEMU; did you mean "restart"?',
    ],
    accepted: { onCrash: 'restart' },
  },
  {
    refused: { onReboot: 'preserve' },
    causes: [
      'spec.domain.onReboot: Unsupported value: "preserve": is only supported for onCrash; use destroy or restart',
    ],
    accepted: { onReboot: 'destroy' },
  },
  {
    refused: { onPoweroff: 'preserve' },
    causes: [
      'spec.domain.onPoweroff: Unsupported value: "preserve": is only supported for onCrash; use destroy or restart',
    ],
    accepted: { onCrash: 'preserve' },
  },
  {
    refused: { onReboot: 'destroy', onPoweroff: 'restart' },
    causes: ['spec.domain.onPoweroff: Forbidden: must not be restart when onReboot is destroy'],
    accepted: { onReboot: 'restart', onPoweroff: 'restart' },
  },
])
