import { offers } from '../capabilities.ts'
import { each, fill, list, type Addition, type DeviceOf, type Rule } from './rule.ts'

/** Whether an interface is a USB network card of the host, which stays on USB in the guest. */
export const isHostUsbCard = ({ type, source }: DeviceOf<'interfaces'>): boolean =>
  type === 'hostdev' && (source?.address?.type === 'usb' || source?.vendor !== undefined)

export const interfaceType = each('interfaces')(
  'interface-type',
  'A network card without a type is connected by QEMU itself.',
  () => ({ type: 'user' }),
)

export const interfaceMode = each('interfaces')(
  'interface-mode',
  'What is connected directly to a network card of the node goes through its switch (`vepa`).',
  ({ type, source }) => (type === 'direct' && source ? { source: { mode: 'vepa' } } : undefined),
)

export const vhostuserMode = each('interfaces')(
  'vhostuser-mode',
  'QEMU connects to the socket of a switch, rather than wait for it.',
  ({ type, source }) => (type === 'vhostuser' && source ? { source: { type: 'unix', mode: 'client' } } : undefined),
)

export const addressFamily: Rule = {
  name: 'ip-family',
  description: 'The form of an IP address decides its family.',
  about: ['interfaces'],
  apply: (domain) =>
    list(domain, 'interfaces').flatMap(({ ips = [], source }) =>
      [...ips, ...(source?.ips ?? [])].flatMap((one): Addition[] =>
        one.address === undefined ? [] : [fill(one, { family: one.address.includes(':') ? 'ipv6' : 'ipv4' })],
      ),
    ),
}

export const interfaceModel = each('interfaces')(
  'interface-model',
  'A network card is an RTL8139 where QEMU has it, else an E1000, else virtio; with vDPA or a switch of processes it is virtio.',
  ({ type }, _, { capabilities }) => {
    if (type === 'hostdev') return undefined
    if (type === 'vdpa' || type === 'vhostuser') return { model: { type: 'virtio' } }
    const model = offers(capabilities, 'rtl8139') ? 'rtl8139' : offers(capabilities, 'e1000') ? 'e1000' : 'virtio'
    return { model: { type: model } }
  },
)
