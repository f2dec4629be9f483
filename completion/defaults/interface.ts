import { offers } from '../capabilities.ts'
import { each, fill, list, type Addition, type DeviceOf, type Rule } from './rule.ts'

/** Whether an interface is a USB network card of the host, which is on USB in the guest too. */
export const isHostUsbCard = ({ type, source }: DeviceOf<'interfaces'>): boolean =>
  type === 'hostdev' && (source?.address?.type === 'usb' || source?.vendor !== undefined)

export const interfaceType = each('interfaces')(
  'interface-type',
  'The type of an interface is `user`: QEMU itself connects it.',
  () => ({ type: 'user' }),
)

export const interfaceBackend = each('interfaces')(
  'interface-backend',
  'In a launcher pod, passt connects an interface of type `user`, and its model is `virtio`: the guest has the address of the pod. libvirt itself would use the network stack of QEMU, which `backend: {type: default}` selects.',
  ({ type, backend }, _, { isOurs }) =>
    isOurs !== true || type !== 'user' || backend?.type === 'default'
      ? undefined
      : { backend: { type: 'passt' }, model: { type: 'virtio' } },
)

export const interfaceMode = each('interfaces')(
  'interface-mode',
  'The mode of a `direct` interface is `vepa`: traffic passes through the external switch.',
  ({ type, source }) => (type === 'direct' && source ? { source: { mode: 'vepa' } } : undefined),
)

export const vhostuserMode = each('interfaces')(
  'vhostuser-mode',
  'QEMU connects to the socket of a vhost-user switch rather than listening on it.',
  ({ type, source }) => (type === 'vhostuser' && source ? { source: { type: 'unix', mode: 'client' } } : undefined),
)

export const addressFamily: Rule = {
  name: 'ip-family',
  description: 'The format of an IP address determines its family.',
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
  'The model of an interface is `rtl8139` if QEMU has it, else `e1000`, else `virtio`; for vDPA and vhost-user it is always `virtio`.',
  ({ type }, _, { capabilities }) => {
    if (type === 'hostdev') return undefined
    if (type === 'vdpa' || type === 'vhostuser') return { model: { type: 'virtio' } }
    const model = offers(capabilities, 'rtl8139') ? 'rtl8139' : offers(capabilities, 'e1000') ? 'e1000' : 'virtio'
    return { model: { type: model } }
  },
)
