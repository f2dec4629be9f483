import { isRecord } from '../../schema.ts'
import { type JsonObject, type Normalization, omit, upperCase, within } from './member.ts'

/** What libvirt stores for network interfaces. */
export const networkInterface: Normalization = {
  'devices.interfaces': (nic) => storedInterface(nic),
  'devices.interfaces.boot': (boot) => upperCase(boot, 'loadparm'),
}

const storedInterface = (nic: JsonObject): JsonObject => {
  const { type, source, target } = nic
  const card = isRecord(nic['model']) ? nic['model']['type'] : undefined
  const model =
    typeof card === 'string' ? (knownCards.find((known) => known.toLowerCase() === card.toLowerCase()) ?? card) : card
  const isVirtio = typeof model === 'string' && /^virtio(?:-(?:non-)?transitional)?$/.test(model)
  let result = within(nic, 'model', (json) => (model === undefined ? json : { ...json, type: model }))
  // The driver has options for virtio, or for the assignment of a host device.
  if (type !== 'hostdev' && !isVirtio) result = omit(result, ['driver'])
  if (nic['managed'] === false) result = omit(result, ['managed'])
  result = within(result, 'backend', (backend) => omit(backend, backend['type'] === 'default' ? ['type'] : []))
  if (type === 'hostdev') {
    result = within(result, 'driver', (driver) =>
      omit(
        driver,
        Object.keys(driver).filter((key) => key !== 'name' && key !== 'model'),
      ),
    )
  }
  result = within(result, 'driver', (driver) => omit(driver, driver['queues'] === 1 ? ['queues'] : []))
  if (!isVirtio) result = within(result, 'backend', (backend) => omit(backend, ['vhost']))
  if (typeof type === 'string' && !['ethernet', 'network', 'bridge'].includes(type))
    result = omit(result, ['filterref'])
  if (type === 'network' && isRecord(source)) result = { ...result, source: omit(source, ['portid']) }
  const dev = isRecord(target) ? target['dev'] : undefined
  if (typeof dev === 'string' && generatedNames.some((prefix) => dev.startsWith(prefix))) {
    result = within(result, 'target', (json) => omit(json, ['dev']))
  }
  return omit(
    result,
    ['driver', 'backend', 'target'].filter((key) => {
      const child = result[key]
      return isRecord(child) && Object.keys(child).length === 0
    }),
  )
}

/** The prefixes of names that libvirt generates for the host end at each start. */
const generatedNames = ['vnet', 'macvtap', 'macvlan']

/** Models that libvirt recognizes case-insensitively and stores in this spelling. */
const knownCards = [
  'netfront',
  'rtl8139',
  'virtio',
  'e1000',
  'e1000e',
  'igb',
  'virtio-transitional',
  'virtio-non-transitional',
  'usb-net',
  'spapr-vlan',
  'lan9118',
  'scm91c111',
  'vlance',
  'vmxnet',
  'vmxnet2',
  'vmxnet3',
  'Am79C970A',
  'Am79C973',
  '82540EM',
  '82545EM',
  '82543GC',
]
