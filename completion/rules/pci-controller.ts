import type { Domain } from '../../api/domain/domain.ts'
import { chipsetOf, hasPci } from '../defaults/machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { forbidden, invalid, notFound, required } from './finding.ts'
import { example, type Rule } from './rule.ts'

const pciRootModel: Rule = {
  id: 'pci-root-model',
  description: 'PCI controller 0 must be the root of the machine type: `pcie-root` on q35, `pci-root` on i440fx.',
  *check({ domain }) {
    if (!hasPci(domain)) return
    const model = chipsetOf(domain) === 'q35' ? 'pcie-root' : 'pci-root'
    for (const [index, one] of list(domain, 'controllers').entries()) {
      if (one.type !== 'pci' || numberOf(one.index) !== 0 || one.model === model) continue
      const field = `spec.domain.devices.controllers[${index}].model`
      const message = `must be ${model}, the PCI controller 0 of machine type ${domain.os?.type?.machine}`
      yield invalid(field, one.model, message)
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'pci', index: 0, model: 'pcie-root' }] } },
    { devices: { controllers: [{ type: 'pci', index: 0, model: 'pci-root' }] } },
  ),
}

export const isRoot = (model: string | undefined): boolean => model === 'pci-root' || model === 'pcie-root'

const pciRoot: Rule = {
  id: 'pci-root',
  description: 'A PCI root must have index 0 and no address; every PCI controller must have a model.',
  *check({ domain }) {
    for (const [place, { type, model, index, address }] of list(domain, 'controllers').entries()) {
      if (type !== 'pci') continue
      const field = `spec.domain.devices.controllers[${place}]`
      const number = numberOf(index) ?? 0
      if (isRoot(model) && number !== 0) yield invalid(`${field}.index`, index, `must be 0 for a ${model}`)
      if (isRoot(model) && address?.type !== undefined) {
        yield forbidden(`${field}.address`, undefined, `must not be set: a ${model} is not plugged into another bus`)
      }
      if (model === undefined) yield required(`${field}.model`, 'must be set for a PCI controller')
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-root' }] } },
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-bridge' }] } },
  ),
}

/** The chips (`modelName`) that implement each model. */
const chips: { readonly [model: string]: readonly string[] } = {
  'pci-root': [],
  'pcie-root': [],
  'pci-bridge': ['pci-bridge'],
  'dmi-to-pci-bridge': ['i82801b11-bridge'],
  'pcie-to-pci-bridge': ['pcie-pci-bridge'],
  'pcie-root-port': ['ioh3420', 'pcie-root-port'],
  'pcie-switch-upstream-port': ['x3130-upstream'],
  'pcie-switch-downstream-port': ['xio3130-downstream'],
  'pci-expander-bus': ['pxb'],
  'pcie-expander-bus': ['pxb-pcie'],
}

const targets: { readonly [key: string]: readonly string[] } = {
  chassisNr: ['pci-bridge'],
  chassis: ['pcie-root-port', 'pcie-switch-downstream-port'],
  port: ['pcie-root-port', 'pcie-switch-downstream-port'],
  busNr: ['pci-expander-bus', 'pcie-expander-bus'],
  hotplug: ['pci-root', 'pcie-root-port', 'pcie-switch-downstream-port'],
  index: [],
  memReserve: ['pcie-root-port', 'pci-bridge', 'pcie-to-pci-bridge'],
}

const expressOnly: readonly string[] = [
  'pcie-expander-bus',
  'dmi-to-pci-bridge',
  'pcie-root-port',
  'pcie-switch-upstream-port',
  'pcie-switch-downstream-port',
]

const pciControllerOptions: Rule = {
  id: 'pci-controller-options',
  description: 'The chip and the options of a PCI controller must be those of its model.',
  *check({ domain }) {
    const cells = domain.cpu?.numa?.cells?.length ?? 0
    const isExpress = chipsetOf(domain) === 'q35'
    for (const [place, { type, model, modelName, target }] of list(domain, 'controllers').entries()) {
      if (type !== 'pci' || model === undefined) continue
      const field = `spec.domain.devices.controllers[${place}]`
      const allowed = chips[model]
      if (allowed && modelName?.name !== undefined && !allowed.includes(modelName.name)) {
        yield invalid(`${field}.modelName.name`, modelName.name, `is not a chip of model ${model}`)
      }
      for (const [key, models] of Object.entries(targets)) {
        if (target !== undefined && Object.hasOwn(target, key) && !models.includes(model)) {
          yield forbidden(
            `${field}.target.${key}`,
            undefined,
            models.length === 0
              ? 'is not supported on x86'
              : `can only be set for model ${models.join(', ')}, not for ${model}`,
          )
        }
      }
      for (const [key, first, last] of [
        ['chassisNr', 1, 255],
        ['busNr', 1, 254],
      ] as const) {
        const number = numberOf(target?.[key])
        if (number !== undefined && (number < first || number > last)) {
          yield invalid(`${field}.target.${key}`, number, `must be from ${first} to ${last}`)
        }
      }
      const node = numberOf(target?.node)
      if (node !== undefined && node >= cells) {
        yield notFound(`${field}.target.node`, node, 'cpu.numa has no cell with this id')
      }
      if (isExpress ? model === 'pci-expander-bus' : expressOnly.includes(model)) {
        const chipset = isExpress ? 'i440fx' : 'q35'
        if (hasPci(domain)) yield invalid(`${field}.model`, model, `is only supported on ${chipset} machine types`)
      }
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-bridge', modelName: { name: 'pxb' } }] } },
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-bridge', modelName: { name: 'pci-bridge' } }] } },
  ),
}

const pciOrder: Rule = {
  id: 'pci-order',
  description:
    'A PCI bridge must be on a bus with a lower index than its own; every PCI controller must fit into a slot.',
  *check({ domain }) {
    if (!hasPci(domain)) return
    for (const [place, { type, index, model, address }] of list(domain, 'controllers').entries()) {
      if (type !== 'pci' || isRoot(model)) continue
      const at = `spec.domain.devices.controllers[${place}]`
      const own = numberOf(index)
      const bus = numberOf(address?.bus)
      // An address without bus and slot requests a free slot, like no address.
      if (address?.type === undefined || (address.type === 'pci' && bus === undefined && address.slot === undefined)) {
        yield invalid(`${at}.model`, model, 'requires a PCI controller that it can be plugged into')
      } else if (model === 'pci-bridge' && own !== undefined && bus !== undefined && bus >= own) {
        const message = `must be less than ${own}, the index of the bridge, because buses are enumerated in order`
        yield invalid(`${at}.address.bus`, bus, message)
      }
    }
  },
  example: example(bridged(1), bridged(0)),
}

function bridged(bus: number): Domain {
  const address = { type: 'pci' as const, bus, slot: 9 }
  return { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-bridge', address }] } }
}

const pciHole = eachDevice('controllers', 'pcihole64')(
  'pci-hole',
  'Only a PCI root has a 64-bit PCI hole.',
  ({ model, pcihole64 }, at) =>
    pcihole64 === undefined || isRoot(model)
      ? []
      : [forbidden(`${at}.pcihole64`, undefined, 'can only be set for pci-root and pcie-root')],
  example(
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-bridge', pcihole64: { value: 1024 } }] } },
    { devices: { controllers: [{ type: 'pci', index: 0, model: 'pci-root', pcihole64: { value: 1024 } }] } },
  ),
)

export const pciControllerRules: readonly Rule[] = [pciRootModel, pciRoot, pciControllerOptions, pciOrder, pciHole]
