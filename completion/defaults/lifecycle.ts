import { rule } from './rule.ts'

export const onPoweroff = rule('on-poweroff', 'A VM that powers off ends.', () => ({ onPoweroff: 'destroy' }))

export const onReboot = rule('on-reboot', 'A VM that reboots continues to run.', () => ({ onReboot: 'restart' }))

export const onCrash = rule('on-crash', 'A VM that crashes ends.', () => ({ onCrash: 'destroy' }))
