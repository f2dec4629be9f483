import { rule } from './rule.ts'

export const onPoweroff = rule('on-poweroff', 'A VM that powers off is gone.', () => ({ onPoweroff: 'destroy' }))

export const onReboot = rule('on-reboot', 'A VM that reboots continues to run.', () => ({ onReboot: 'restart' }))

export const onCrash = rule('on-crash', 'A VM that crashes is gone.', () => ({ onCrash: 'destroy' }))
