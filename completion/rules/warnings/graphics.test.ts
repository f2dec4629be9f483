import type { Domain } from '../../../api/domain/domain.ts'
import { testWarning } from '../../../test/rule-table.ts'
import type { DeviceOf } from '../device.ts'

const graphics = (...graphics: DeviceOf<'graphics'>[]): Domain => ({ devices: { graphics } })

const line = 'devices.graphics[0]: listens on all addresses of the pod without a password'

testWarning('graphics-open', [
  {
    warned: graphics({ type: 'vnc', listen: '0.0.0.0' }),
    lines: [line],
    silent: graphics({ type: 'vnc', listen: '127.0.0.1' }),
  },
  {
    warned: graphics({ type: 'vnc', listen: '::' }),
    lines: [line],
    silent: graphics({ type: 'vnc', listen: '0.0.0.0', passwd: 'secret' }),
  },
  {
    warned: graphics({ type: 'vnc', listens: [{ type: 'address', address: '::' }] }),
    lines: [line],
    silent: graphics({ type: 'vnc' }),
  },
])
