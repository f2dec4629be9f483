import { numberOf } from '../defaults/reading.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { isUsbOff, usbPaths } from '../defaults/usb.ts'
import { allDevices, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, lacking, notFound } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Controller = DeviceOf<'controllers'>

const usbControllers = (domain: Domain): readonly Controller[] =>
  list(domain, 'controllers').filter(({ type }) => type === 'usb')

const usbDisabled: Rule = {
  id: 'usb-disabled',
  description:
    'Where USB is switched off (a USB controller of model `none`) there is neither another USB controller nor a USB device.',
  *check({ domain }) {
    if (!isUsbOff(domain)) return
    let off = 0
    for (const [index, { type, model }] of list(domain, 'controllers').entries()) {
      if (type === 'usb' && model === 'none') off += 1
      if (type !== 'usb' || (model === 'none' && off < 2)) continue
      const message = 'cannot be there: another USB controller has model none, which switches USB off'
      yield forbidden(`spec.domain.devices.controllers[${index}].model`, model, message)
    }
    for (const at of usbPaths(domain)) {
      const message = 'is a USB device, and USB is switched off by a controller of model none'
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
    'A controller of model `none` has index 0: beside any other libvirt adds a controller 0, and then refuses its own domain.',
  *check({ domain }) {
    for (const [place, { type, model, index }] of list(domain, 'controllers').entries()) {
      if (type === 'usb' && model === 'none' && (numberOf(index) ?? 0) !== 0)
        yield invalid(
          `spec.domain.devices.controllers[${place}].index`,
          index,
          'must be 0: model none is for all of USB',
        )
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 1, model: 'none' }] } },
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'none' }] } },
  ),
}

/** Ports of each model of controller. */
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
  description: 'An xHCI controller has 15 ports at most.',
  about: ['ports'],
  *check({ domain }) {
    for (const [index, { type, model, ports }] of list(domain, 'controllers').entries()) {
      const count = numberOf(ports)
      if (type !== 'usb' || count === undefined) continue
      const field = `spec.domain.devices.controllers[${index}].ports`
      if (model !== 'qemu-xhci' && model !== 'nec-xhci') continue
      if (count > maxXhciPorts) {
        yield invalid(field, ports, `must be at most ${maxXhciPorts}, which is what a ${model} has`)
      }
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'qemu-xhci', ports: 16 }] } },
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'qemu-xhci', ports: 15 }] } },
  ),
}

/** Models and what QEMU calls them. */
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
  description: 'The QEMU of the node has the model of a USB controller.',
  *check({ domain, capabilities: { devices } }) {
    for (const [index, { type, model }] of list(domain, 'controllers').entries()) {
      if (type !== 'usb' || model === undefined || model === 'none') continue
      const name = capabilityOf[model]
      if (name !== undefined && devices.includes(name)) continue
      const field = `spec.domain.devices.controllers[${index}].model`
      const there = Object.keys(capabilityOf).filter((one) => devices.includes(capabilityOf[one] ?? ''))
      const message = `is no USB controller that QEMU has here; there are: ${there.join(', ')}`
      yield lacking(`USB controller ${model}`, invalid(field, model, message))
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'vt82c686b-uhci' }] } },
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'piix3-uhci' }] } },
  ),
}

const hubPorts = 8
const maxDepth = 4
const pathPattern = /^[0-9]+(?:\.[0-9]+)*$/

const usbAddress: Rule = {
  id: 'usb-address',
  description:
    'A USB device is on a controller that is there, at a port that it has, through hubs that are there, alone.',
  *check({ domain }) {
    if (isUsbOff(domain)) return
    const buses = new Map<number, number>()
    for (const one of usbControllers(domain)) {
      const index = numberOf(one.index) ?? 0
      if (one.master?.startport === undefined) buses.set(index, Math.max(portsOf(one), buses.get(index) ?? 0))
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
      else yield duplicate(field, address.port, `on USB bus ${bus} is where ${other} is plugged in as well`)
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

/** @param port path of the port of the address */
const noController = (port: string, bus: number): Finding =>
  notFound(port.replace(/port$/, 'bus'), bus, 'there is no USB controller with this index')

const portFault = (
  field: string,
  bus: number,
  port: string,
  buses: ReadonlyMap<number, number>,
  hubs: ReadonlySet<string>,
): Finding | undefined => {
  const ports = port.split('.')
  if (!pathPattern.test(port)) return invalid(field, port, 'must be port numbers with dots between them, e.g. 1.2')
  if (ports.length > maxDepth) return invalid(field, port, `may not go through more than ${maxDepth - 1} hubs`)
  const count = buses.get(bus)
  if (count === undefined) return noController(field, bus)
  for (let depth = 0; depth < ports.length; depth += 1) {
    const number = Number(ports[depth])
    const hub = ports.slice(0, depth).join('.')
    if (depth > 0 && !hubs.has(`${bus}:${hub}`))
      return notFound(field, port, `there is no hub at port ${hub} of USB bus ${bus}`)
    const last = depth === 0 ? count : hubPorts
    // A controller that serves companions only has no ports of its own to count.
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
  description: 'No two USB controllers have the same index, unless they are the companions of one.',
  *check({ domain }) {
    const seen = new Map<number, string>()
    for (const [place, one] of list(domain, 'controllers').entries()) {
      if (one.type !== 'usb' || one.master !== undefined) continue
      const field = `spec.domain.devices.controllers[${place}].index`
      const index = numberOf(one.index) ?? 0
      const other = seen.get(index)
      if (other === undefined) seen.set(index, field)
      else yield duplicate(field, index, `is the index of another USB controller, ${other}, as well`)
    }
  },
  example: example(
    { devices: { controllers: [0, 0].map((index) => ({ type: 'usb', index, model: 'qemu-xhci' })) } },
    { devices: { controllers: [0, 1].map((index) => ({ type: 'usb', index, model: 'qemu-xhci' })) } },
  ),
}

const usbMaster: Rule = {
  id: 'usb-master',
  description: 'A companion controller belongs to a USB controller that is none, as an ich9-uhci1 to an ich9-ehci1.',
  about: ['master'],
  *check({ domain, originOf }) {
    const controllers = [...list(domain, 'controllers').entries()].filter(([, { type }]) => type === 'usb')
    const isMaster = ([place, { master }]: (typeof controllers)[number]): boolean =>
      master === undefined && originOf(`spec.domain.devices.controllers[${place}].type`).by !== 'default'
    if (controllers.some(isMaster)) return
    for (const [place, { model, master }] of controllers) {
      if (master === undefined || model === 'none') continue
      const message = 'is a companion, and there is no USB controller that it belongs to'
      yield notFound(
        `spec.domain.devices.controllers[${place}].model`,
        model,
        message,
        'add an ich9-ehci1 with its index',
      )
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'usb', index: 0, model: 'ich9-uhci1' }] } },
    {
      devices: {
        controllers: [
          { type: 'usb', index: 0, model: 'ich9-ehci1' },
          { type: 'usb', index: 0, model: 'ich9-uhci1', master: { startport: '0' } },
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
