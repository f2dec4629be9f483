import { numberOf } from '../defaults/reading.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { isUsbOff, usbPaths } from '../defaults/usb.ts'
import { allDevices, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, missingCapability, notFound } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Controller = DeviceOf<'controllers'>

const usbControllers = (domain: Domain): readonly Controller[] =>
  list(domain, 'controllers').filter(({ type }) => type === 'usb')

const usbDisabled: Rule = {
  id: 'usb-disabled',
  description:
    'A USB controller with model `none` disables USB: the VM must have no other USB controller and no USB device.',
  *check({ domain }) {
    if (!isUsbOff(domain)) return
    let off = 0
    for (const [index, { type, model }] of list(domain, 'controllers').entries()) {
      if (type === 'usb' && model === 'none') off += 1
      if (type !== 'usb' || (model === 'none' && off < 2)) continue
      const message = 'conflicts with another USB controller, whose model none disables USB'
      yield forbidden(`spec.domain.devices.controllers[${index}].model`, model, message)
    }
    for (const at of usbPaths(domain)) {
      const message = 'is a USB device, but a USB controller with model none disables USB'
      yield forbidden(`spec.domain.${at}`, undefined, message)
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'none' }], hubs: [{ type: 'usb' }] } },
    { devices: { controllers: [{ type: 'usb', index: 0 }], hubs: [{ type: 'usb' }] } },
  ),
}

const usbOffIndex: Rule = {
  id: 'usb-off-index',
  description:
    'A USB controller with model `none` must have index 0: with any other index libvirt adds a controller 0 and refuses the result.',
  *check({ domain }) {
    for (const [place, { type, model, index }] of list(domain, 'controllers').entries()) {
      if (type === 'usb' && model === 'none' && (numberOf(index) ?? 0) !== 0)
        yield invalid(
          `spec.domain.devices.controllers[${place}].index`,
          index,
          'must be 0: model none disables all of USB',
        )
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 1, model: 'none' }] } },
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'none' }] } },
  ),
}

/** The number of root ports of a controller. */
const portsOf = ({ model, ports }: Controller): number => {
  switch (model) {
    case 'qemu-xhci':
    case 'nec-xhci':
      return numberOf(ports) ?? 4
    case 'ehci':
    case 'ich9-ehci1':
      return 6
    case 'pci-ohci':
      return 3
    default:
      return 2
  }
}

const maxXhciPorts = 15

const usbPorts: Rule = {
  id: 'usb-ports',
  description: 'An xHCI controller has at most 15 ports.',
  about: ['ports'],
  *check({ domain }) {
    for (const [index, { model, ports }] of list(domain, 'controllers').entries()) {
      if (model !== 'qemu-xhci' && model !== 'nec-xhci') continue
      if ((numberOf(ports) ?? 0) > maxXhciPorts) {
        yield invalid(
          `spec.domain.devices.controllers[${index}].ports`,
          ports,
          `must be at most ${maxXhciPorts} for model ${model}`,
        )
      }
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'qemu-xhci', ports: 16 }] } },
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'qemu-xhci', ports: 15 }] } },
  ),
}

/** Each model and the QEMU device that implements it. */
const capabilityOf: { readonly [model: string]: string } = {
  'piix3-uhci': 'piix3-usb-uhci',
  'piix4-uhci': 'piix4-usb-uhci',
  ehci: 'usb-ehci',
  'ich9-ehci1': 'ich9-usb-ehci1',
  'ich9-uhci1': 'ich9-usb-ehci1',
  'ich9-uhci2': 'ich9-usb-ehci1',
  'ich9-uhci3': 'ich9-usb-ehci1',
  'vt82c686b-uhci': 'vt82c686b-usb-uhci',
  'pci-ohci': 'pci-ohci',
  'nec-xhci': 'nec-usb-xhci',
  'qemu-xhci': 'qemu-xhci',
}

const usbModel: Rule = {
  id: 'usb-controller-model',
  description: 'QEMU on the node must support the model of a USB controller.',
  *check({ domain, capabilities: { devices } }) {
    for (const [index, { type, model = 'none' }] of list(domain, 'controllers').entries()) {
      if (type !== 'usb' || model === 'none' || devices.includes(capabilityOf[model] ?? '')) continue
      const field = `spec.domain.devices.controllers[${index}].model`
      const supported = Object.keys(capabilityOf).filter((one) => devices.includes(capabilityOf[one] ?? ''))
      const message = `QEMU on this node has no such USB controller; it has ${supported.join(', ')}`
      yield missingCapability(`USB controller ${model}`, invalid(field, model, message))
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'vt82c686b-uhci' }] } },
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'piix3-uhci' }] } },
  ),
}

const hubPorts = 8

const usbAddress: Rule = {
  id: 'usb-address',
  description:
    'The address of a USB device must name an existing controller, existing hubs, and a free port of the last one.',
  *check({ domain }) {
    if (isUsbOff(domain)) return
    const buses = new Map<number, number>()
    for (const one of usbControllers(domain)) {
      const index = numberOf(one.index) ?? 0
      if (one.master === undefined) buses.set(index, Math.max(portsOf(one), buses.get(index) ?? 0))
      else if (!buses.has(index)) buses.set(index, 0)
    }
    const hubs = new Set(
      list(domain, 'hubs').map(({ address }) => `${numberOf(address?.bus) ?? 0}:${address?.port ?? ''}`),
    )
    const taken = new Map<string, string>()
    for (const { at, device } of allDevices(domain)) {
      const { address } = device
      if (address?.type !== 'usb') continue
      const field = `${at}.address.port`
      const bus = numberOf(address.bus) ?? 0
      if (address.port === undefined) {
        if (address.bus !== undefined && !buses.has(bus)) yield noController(field, bus)
        continue
      }
      const fault = portFault(field, bus, address.port, buses, hubs)
      if (fault) {
        yield fault
        continue
      }
      const place = `${bus}:${address.port}`
      const other = taken.get(place)
      if (other === undefined) taken.set(place, at)
      else yield duplicate(field, address.port, `is already the port of ${other} on USB bus ${bus}`)
    }
  },
  example: example(
    {
      devices: {
        hubs: [{ type: 'usb', address: { type: 'usb', bus: 0, port: '1' } }],
        inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 0, port: '2.1' } }],
      },
    },
    {
      devices: {
        hubs: [{ type: 'usb', address: { type: 'usb', bus: 0, port: '1' } }],
        inputs: [{ type: 'tablet', bus: 'usb', address: { type: 'usb', bus: 0, port: '1.1' } }],
      },
    },
  ),
}

/** @param port field path of the address's port */
const noController = (port: string, bus: number): Finding =>
  notFound(port.replace(/port$/, 'bus'), bus, 'no USB controller has this index')

const portFault = (
  field: string,
  bus: number,
  port: string,
  buses: ReadonlyMap<number, number>,
  hubs: ReadonlySet<string>,
): Finding | undefined => {
  const ports = port.split('.')
  const count = buses.get(bus)
  if (count === undefined) return noController(field, bus)
  for (let depth = 0; depth < ports.length; depth += 1) {
    const number = Number(ports[depth])
    const hub = ports.slice(0, depth).join('.')
    if (depth > 0 && !hubs.has(`${bus}:${hub}`))
      return notFound(field, port, `there is no hub at port ${hub} of USB bus ${bus}`)
    const last = depth === 0 ? count : hubPorts
    // A bus of companion controllers only has no root ports of its own, so the number cannot be checked.
    if (number < 1 || (last > 0 && number > last)) {
      return invalid(
        field,
        port,
        `${depth === 0 ? `USB controller ${bus}` : `the hub at ${hub}`} has ports 1 to ${last}`,
      )
    }
  }
  return undefined
}

const usbIndexUnique: Rule = {
  id: 'usb-controller-unique',
  description: 'USB controllers must have different indexes, except companions, which share the index of their master.',
  *check({ domain }) {
    const seen = new Map<number, string>()
    for (const [place, one] of list(domain, 'controllers').entries()) {
      if (one.type !== 'usb' || one.master !== undefined) continue
      const field = `spec.domain.devices.controllers[${place}].index`
      const index = numberOf(one.index) ?? 0
      const other = seen.get(index)
      if (other === undefined) seen.set(index, field)
      else yield duplicate(field, index, `is already the index of another USB controller, ${other}`)
    }
  },
  example: example(
    { devices: { controllers: [0, 0].map((index) => ({ type: 'usb', index, model: 'qemu-xhci' })) } },
    { devices: { controllers: [0, 1].map((index) => ({ type: 'usb', index, model: 'qemu-xhci' })) } },
  ),
}

const usbMaster: Rule = {
  id: 'usb-master',
  description: 'A companion controller requires a master, e.g. an ich9-ehci1 for an ich9-uhci1.',
  about: ['master'],
  *check({ domain, originOf }) {
    const controllers = [...list(domain, 'controllers').entries()].filter(([, { type }]) => type === 'usb')
    const isMaster = ([place, { master }]: (typeof controllers)[number]): boolean =>
      master === undefined && originOf(`spec.domain.devices.controllers[${place}].type`).by !== 'default'
    if (controllers.some(isMaster)) return
    for (const [place, { model, master }] of controllers) {
      if (master === undefined || model === 'none') continue
      const message = 'is a companion controller without a master'
      yield notFound(
        `spec.domain.devices.controllers[${place}].model`,
        model,
        message,
        'add an ich9-ehci1 with the same index',
      )
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'ich9-uhci1' }] } },
    {
      devices: {
        controllers: [
          { type: 'usb', index: 0, model: 'ich9-ehci1' },
          { type: 'usb', index: 0, model: 'ich9-uhci1', master: { startport: 0 } },
        ],
      },
    },
  ),
}

export const usbRules: readonly Rule[] = [
  usbMaster,
  usbDisabled,
  usbOffIndex,
  usbModel,
  usbPorts,
  usbIndexUnique,
  usbAddress,
]
