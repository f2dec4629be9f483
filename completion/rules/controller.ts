import { controllerModels } from '../../api/domain/controller.ts'
import { virtioModels } from '../../api/domain/virtio.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, lacking, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

type Controller = DeviceOf<'controllers'>

/** Far more than any machine has slots for. */
const maxIndex = 255

const controllerIndex = eachDevice('controllers')(
  'controller-index',
  'The index of a controller, and the controller that an address names, is 255 at most.',
  ({ index }, at) => {
    const number = numberOf(index) ?? 0
    return number <= maxIndex && number >= 0 ? [] : [invalid(`${at}.index`, index, `must be from 0 to ${maxIndex}`)]
  },
  example(
    { devices: { controllers: [{ type: 'scsi', index: 256 }] } },
    { devices: { controllers: [{ type: 'scsi', index: 1 }] } },
  ),
)

const controllerUnique: Rule = {
  id: 'controller-unique',
  description: 'No two controllers of a type have the same index. USB controllers have a rule of their own.',
  *check({ domain }) {
    const seen = new Map<string, string>()
    for (const [place, { type, index }] of list(domain, 'controllers').entries()) {
      if (type === undefined || type === 'usb') continue
      const number = numberOf(index) ?? 0
      const key = `${type} ${number}`
      const field = `spec.domain.devices.controllers[${place}].index`
      const other = seen.get(key)
      if (other === undefined) seen.set(key, field)
      else yield duplicate(field, number, `is the index of another ${type} controller, ${other}, as well`)
    }
  },
  example: example(
    { devices: { controllers: [1, 1].map((index) => ({ type: 'scsi', index })) } },
    { devices: { controllers: [0, 1].map((index) => ({ type: 'scsi', index })) } },
  ),
}

const transitional = virtioModels.filter((model) => model !== 'virtio')

/** The models of each type; a type that is not named has none. */
const models: { readonly [type: string]: readonly string[] } = {
  ...controllerModels,
  scsi: [...controllerModels.scsi, ...transitional],
  'virtio-serial': virtioModels,
}

/** SCSI models, and what QEMU calls those that not every QEMU for a PC has. */
const scsiDevices: { readonly [model: string]: string | undefined } = {
  lsilogic: 'lsi',
  lsisas1068: 'mptsas1068',
  lsisas1078: 'megasas',
  vmpvscsi: 'pvscsi',
  am53c974: 'am53c974',
  dc390: 'dc390',
  'virtio-scsi': 'virtio-scsi-pci',
}

const noScsi = new Set(['buslogic', 'ncr53c90'])

const controllerModel = eachDevice('controllers')(
  'controller-model',
  'The model of a controller is one of its type, and the QEMU of the node has it.',
  ({ type, model }, at, { capabilities: { devices } }) => {
    if (type === 'isa') return [unsupported(`${at}.type`, type, 'is no controller that QEMU adds to a PC')]
    if (type === undefined || model === undefined) return []
    const allowed = models[type] ?? []
    if (!allowed.includes(model)) {
      const message =
        allowed.length === 0
          ? `a ${type} controller has no model`
          : `a ${type} controller is one of ${allowed.join(', ')}`
      return [unsupported(`${at}.model`, model, message)]
    }
    if (type !== 'scsi') return []
    const name = scsiDevices[model]
    const finding = unsupported(`${at}.model`, model, 'is no SCSI controller that QEMU has for a PC')
    if (noScsi.has(model)) return [finding]
    return name !== undefined && !devices.includes(name) ? [lacking(`SCSI controller ${model}`, finding)] : []
  },
  example(
    { devices: { controllers: [{ type: 'scsi', index: 0, model: 'buslogic' }] } },
    { devices: { controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi' }] } },
  ),
)

const ideController = eachDevice('controllers')(
  'ide-controller',
  'An i440fx machine has one IDE controller, others have none.',
  ({ type, index }, at, { domain }) => {
    const chipset = chipsetOf(domain)
    if (type !== 'ide' || chipset === 'other') return []
    if (chipset !== 'i440fx') {
      const message = `cannot be on machine type ${domain.os?.type?.machine}, which has no IDE`
      const suggestion =
        chipset === 'q35' ? 'put its disks on bus sata, or take machine type pc' : 'take machine type pc'
      return [forbidden(at, undefined, message, suggestion)]
    }
    return (numberOf(index) ?? 0) === 0
      ? []
      : [invalid(`${at}.index`, index, 'must be 0: the machine has one IDE controller only')]
  },
  example(
    { devices: { controllers: [{ type: 'ide', index: 1 }] } },
    { devices: { controllers: [{ type: 'ide', index: 0 }] } },
  ),
)

const isVirtioScsi = ({ type, model }: Controller): boolean =>
  type === 'scsi' && ['virtio-scsi', ...transitional].includes(model ?? '')

/** What only a virtio-scsi controller is told. */
const driverOptions = ['queues', 'cmdPerLun', 'maxSectors', 'ioeventfd', 'iothread', 'iothreads'] as const

const controllerDriver = eachDevice('controllers', ...driverOptions)(
  'controller-driver',
  'Queues, commands, sectors and I/O threads are options of virtio-scsi controllers only.',
  (controller, at) => {
    if (isVirtioScsi(controller)) return []
    const { driver = {} } = controller
    return driverOptions
      .filter((key) => driver[key] !== undefined)
      .map((key) => forbidden(`${at}.driver.${key}`, driver[key], 'may be given for virtio-scsi controllers only'))
  },
  example(
    {
      devices: { controllers: [{ type: 'virtio-serial', index: 0, driver: { iothread: 1 } }], disks: [] },
      iothreads: 1,
    },
    {
      devices: { controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi', driver: { iothread: 1 } }] },
      iothreads: 1,
    },
  ),
)

const maxSerialPorts = 511

const virtioSerialPorts = eachDevice('controllers', 'ports', 'vectors')(
  'virtio-serial-ports',
  'A virtio-serial controller has 511 ports at most; ports and vectors are options of no other but USB.',
  ({ type, ports, vectors }, at) => {
    const count = numberOf(ports)
    if (type === 'virtio-serial') {
      return count !== undefined && count > maxSerialPorts
        ? [invalid(`${at}.ports`, ports, `must be at most ${maxSerialPorts}, QEMU's limit`)]
        : []
    }
    const message = `may not be given for a ${type} controller`
    return [
      ...(ports !== undefined && type !== 'usb' ? [forbidden(`${at}.ports`, ports, message)] : []),
      ...(vectors !== undefined ? [forbidden(`${at}.vectors`, vectors, message)] : []),
    ]
  },
  example(
    { devices: { controllers: [{ type: 'virtio-serial', index: 0, ports: 512 }] } },
    { devices: { controllers: [{ type: 'virtio-serial', index: 0, ports: 511 }] } },
  ),
)

export const controllerRules: readonly Rule[] = [
  controllerIndex,
  controllerUnique,
  controllerModel,
  ideController,
  controllerDriver,
  virtioSerialPorts,
]
