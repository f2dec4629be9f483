import { offers } from '../capabilities.ts'
import { each } from './rule.ts'

export const interfaceMode = each('interfaces')(
  'interface-mode',
  'What is connected directly to a network card of the node goes through its switch (`vepa`).',
  ({ type, source }) => (type === 'direct' && source ? { source: { mode: 'vepa' } } : undefined),
)

export const interfaceModel = each('interfaces')(
  'interface-model',
  'A network card is an RTL8139 where QEMU has it, else an E1000, else virtio; with vDPA it is virtio.',
  ({ type }, _, { capabilities }) => {
    if (type === 'hostdev') return undefined
    if (type === 'vdpa') return { model: { type: 'virtio' } }
    const model = offers(capabilities, 'rtl8139') ? 'rtl8139' : offers(capabilities, 'e1000') ? 'e1000' : 'virtio'
    return { model: { type: model } }
  },
)
