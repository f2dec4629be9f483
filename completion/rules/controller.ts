import { controllerModels } from '../../api/domain/elements/controller.ts'
import { virtioModels } from '../../api/domain/elements/virtio.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, missingCapability, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

type Controller = DeviceOf<'controllers'>

/** Far more than the slots of any machine type. */
const maxIndex = 255

const controllerIndex = eachDevice('controllers')(
  'controller-index',
  'The index of a controller must be between 0 and 255.',
  ({ index }, at) => {
    const number = numberOf(index) ?? 0
    return number <= maxIndex && number >= 0 ? [] : [invalid(`${at}.index`, index, `must be between 0 and ${maxIndex}`)]
  },
  example(
    { devices: { controllers: [{ type: 'scsi', index: 256 }] } },
    { devices: { controllers: [{ type: 'scsi', index: 1 }] } },
  ),
)

const controllerUnique: Rule = {
  id: 'controller-unique',
  description: 'Controllers of the same type must have different indexes. USB controllers have their own rule.',
  *check({ domain }) {
    const seen = new Map<string, string>()
    for (const [place, { type, index }] of list(domain, 'controllers').entries()) {
      if (type === undefined || type === 'usb') continue
      const number = numberOf(index) ?? 0
      const key = `${type} ${number}`
      const field = `spec.domain.devices.controllers[${place}].index`
      const other = seen.get(key)
      if (other === undefined) seen.set(key, field)
      else yield duplicate(field, number, `is already the index of a ${type} controller: ${other}`)
    }
  },
  example: example(
    { devices: { controllers: [1, 1].map((index) => ({ type: 'scsi', index })) } },
    { devices: { controllers: [0, 1].map((index) => ({ type: 'scsi', index })) } },
  ),
}

const transitional = virtioModels.filter((model) => model !== 'virtio')

/** The models of each type; other types have none. */
const models: { readonly [type: string]: readonly string[] } = {
  ...controllerModels,
  scsi: [...controllerModels.scsi, ...transitional],
  'virtio-serial': virtioModels,
}

/** QEMU's device for each SCSI model. */
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
  'The model of a controller must be one of its type, and QEMU on the node must support it.',
  ({ type, model }, at, { capabilities: { devices } }) => {
    if (type === 'isa') return [unsupported(`${at}.type`, type, 'is not supported on x86')]
    if (type === undefined || model === undefined) return []
    const allowed = models[type] ?? []
    if (!allowed.includes(model)) {
      const message =
        allowed.length === 0
          ? `must not be set: a ${type} controller has no model`
          : `must be one of ${allowed.join(', ')} for a ${type} controller`
      return [unsupported(`${at}.model`, model, message)]
    }
    if (type !== 'scsi') return []
    const name = scsiDevices[model]
    const finding = unsupported(`${at}.model`, model, 'is not supported by QEMU on this node')
    if (noScsi.has(model)) return [finding]
    return name !== undefined && !devices.includes(name) ? [missingCapability(`SCSI controller ${model}`, finding)] : []
  },
  example(
    { devices: { controllers: [{ type: 'scsi', index: 0, model: 'buslogic' }] } },
    { devices: { controllers: [{ type: 'scsi', index: 0, model: 'virtio-scsi' }] } },
  ),
)

const ideController = eachDevice('controllers')(
  'ide-controller',
  'Only i440fx machine types have an IDE controller, and they have one.',
  ({ type, index }, at, { domain }) => {
    const chipset = chipsetOf(domain)
    if (type !== 'ide' || chipset === 'other') return []
    if (chipset !== 'i440fx') {
      const message = `is not supported by machine type ${domain.os?.type?.machine}, which has no IDE`
      const suggestion = chipset === 'q35' ? 'put its disks on bus sata, or use machine type pc' : 'use machine type pc'
      return [forbidden(at, undefined, message, suggestion)]
    }
    return (numberOf(index) ?? 0) === 0
      ? []
      : [invalid(`${at}.index`, index, 'must be 0: the machine type has one IDE controller')]
  },
  example(
    { devices: { controllers: [{ type: 'ide', index: 1 }] } },
    { devices: { controllers: [{ type: 'ide', index: 0 }] } },
  ),
)

const isVirtioScsi = ({ type, model }: Controller): boolean =>
  type === 'scsi' && ['virtio-scsi', ...transitional].includes(model ?? '')

/** Only virtio-scsi controllers have these. */
const driverOptions = ['queues', 'cmdPerLun', 'maxSectors', 'ioeventfd', 'iothread', 'iothreads'] as const

const controllerDriver = eachDevice('controllers', ...driverOptions)(
  'controller-driver',
  'Only virtio-scsi controllers have options for queues, commands, sectors and I/O threads.',
  (controller, at) => {
    if (isVirtioScsi(controller)) return []
    const { driver = {} } = controller
    return driverOptions
      .filter((key) => driver[key] !== undefined)
      .map((key) => forbidden(`${at}.driver.${key}`, driver[key], 'can only be set for virtio-scsi controllers'))
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
  'A virtio-serial controller has at most 511 ports. Only virtio-serial controllers have `vectors`, and only they and USB controllers have `ports`.',
  ({ type, ports, vectors }, at) => {
    const count = numberOf(ports)
    if (type === 'virtio-serial') {
      return count !== undefined && count > maxSerialPorts
        ? [invalid(`${at}.ports`, ports, `must be at most ${maxSerialPorts}, the limit of QEMU`)]
        : []
    }
    const message = `must not be set for a ${type} controller`
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
