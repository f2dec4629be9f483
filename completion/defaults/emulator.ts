import { rule } from './rule.ts'

export const emulator = rule('emulator', 'The emulator is the node’s QEMU.', (_, { capabilities }) => ({
  devices: { emulator: capabilities.emulator },
}))
