import type { Domain } from '../../../api/domain/domain.ts'
import { takenMac, testWarning } from '../../../test/rule-table.ts'

const models = (...types: string[]): Domain => ({
  devices: { interfaces: types.map((type) => ({ type: 'user', model: { type } })) },
})

testWarning('interface-model-unknown', [
  {
    warned: models('e100'),
    lines: ['devices.interfaces[0]: QEMU has no network card "e100"; did you mean e1000?'],
    silent: models('e1000'),
  },
  {
    warned: models('VIRTIO', 'quantum-entangled'),
    lines: ['devices.interfaces[1]: QEMU has no network card "quantum-entangled"'],
    silent: models('VIRTIO', 'Rtl8139'),
  },
])

const macs = (...addresses: string[]): Domain => ({
  devices: { interfaces: addresses.map((address) => ({ type: 'user', mac: { address } })) },
})

testWarning('interface-mac-twice', [
  {
    warned: macs('52:54:00:00:00:ab', '52:54:00:00:00:01', '52:54:00:00:00:AB'),
    lines: ['devices.interfaces[2]: has the MAC address of interfaces[0], 52:54:00:00:00:ab'],
    silent: macs('52:54:00:00:00:ab', '52:54:00:00:00:01', '52:54:00:00:00:ac'),
  },
])

testWarning('interface-mac-taken', [
  {
    warned: macs('52:54:00:00:00:01', takenMac),
    lines: ['devices.interfaces[1]: another VM of the cluster already has the MAC address 52:54:00:00:00:0a'],
    silent: macs('52:54:00:00:00:01', '52:54:00:00:00:0b'),
  },
])
