import { rule } from './rule.ts'

export const emulator = rule('emulator', 'QEMU is the one of the node.', (_, { capabilities }) => ({
  devices: { emulator: capabilities.emulator },
}))
