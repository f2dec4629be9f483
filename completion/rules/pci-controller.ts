import type { Domain } from '../../api/domain/domain.ts'
import { chipsetOf, hasPci } from '../defaults/machine.ts'
import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { forbidden, invalid, notFound } from './finding.ts'
import { example, type Rule } from './rule.ts'

const pciRootModel: Rule = {
  id: 'pci-root-model',
  description: 'The PCI controller 0 is the root that the machine type has: `pcie-root` on q35, `pci-root` on i440fx.',
  *check({ domain }) {
    if (!hasPci(domain)) return
    const model = chipsetOf(domain) === 'q35' ? 'pcie-root' : 'pci-root'
    for (const [index, one] of list(domain, 'controllers').entries()) {
      if (one.type !== 'pci' || numberOf(one.index) !== 0 || one.model === model) continue
      const field = `spec.domain.devices.controllers[${index}].model`
      const message = `must be ${model}: that is the PCI controller 0 of machine type ${domain.os?.type?.machine}`
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
  description: 'A PCI root has index 0 and no address; every other PCI controller has a higher index.',
  *check({ domain }) {
    for (const [place, { type, model, index, address }] of list(domain, 'controllers').entries()) {
      if (type !== 'pci') continue
      const field = `spec.domain.devices.controllers[${place}]`
      const number = numberOf(index) ?? 0
      if (isRoot(model) && number !== 0) yield invalid(`${field}.index`, index, `must be 0 for a ${model}`)
      if (isRoot(model) && address?.type !== undefined) {
        yield forbidden(`${field}.address`, undefined, `may not be given: a ${model} is what addresses begin with`)
      }
      if (model === undefined) yield invalid(`${field}.model`, undefined, 'must be given for a PCI controller')
    }
  },
  example: example(
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-root' }] } },
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-bridge' }] } },
  ),
}

/** Which chips each model of PCI controller can be. */
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
  description: 'A PCI controller is one of the chips of its model, and has only the options that the model has.',
  *check({ domain }) {
    const cells = domain.cpu?.numa?.cells?.length ?? 0
    const isExpress = chipsetOf(domain) === 'q35'
    for (const [place, { type, model, modelName, target }] of list(domain, 'controllers').entries()) {
      if (type !== 'pci' || model === undefined) continue
      const field = `spec.domain.devices.controllers[${place}]`
      const allowed = chips[model]
      if (allowed && modelName?.name !== undefined && !allowed.includes(modelName.name)) {
        yield invalid(`${field}.modelName.name`, modelName.name, `is not the chip of a ${model}`)
      }
      for (const [key, models] of Object.entries(targets)) {
        if (target !== undefined && Object.hasOwn(target, key) && !models.includes(model)) {
          yield forbidden(
            `${field}.target.${key}`,
            undefined,
            models.length === 0
              ? 'is no option of PCI controllers on x86'
              : `is an option of ${models.join(' and ')}, not of ${model}`,
          )
        }
      }
      for (const [key, first, last] of [
        ['chassisNr', 1, 255],
        ['chassis', 0, 255],
        ['busNr', 1, 254],
      ] as const) {
        const number = numberOf(target?.[key])
        if (number !== undefined && (number < first || number > last)) {
          yield invalid(`${field}.target.${key}`, number, `must be from ${first} to ${last}`)
        }
      }
      const node = numberOf(target?.node)
      if (node !== undefined && node >= cells) {
        yield notFound(`${field}.target.node`, node, 'is no NUMA node of the guest: cpu.numa has no such cell')
      }
      if (isExpress ? model === 'pci-expander-bus' : expressOnly.includes(model)) {
        const machine = isExpress ? 'an i440fx' : 'a q35'
        if (hasPci(domain)) yield invalid(`${field}.model`, model, `can only be on ${machine} machine`)
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
    'A PCI bridge sits on a bus with a lower number than its own; every PCI controller has a place to sit in.',
  *check({ domain }) {
    if (!hasPci(domain)) return
    for (const [place, { type, index, model, address }] of list(domain, 'controllers').entries()) {
      if (type !== 'pci' || isRoot(model)) continue
      const at = `spec.domain.devices.controllers[${place}]`
      const own = numberOf(index)
      const bus = numberOf(address?.bus)
      // An address without bus and slot asks for one, as none does.
      if (address?.type === undefined || (address.type === 'pci' && bus === undefined && address.slot === undefined)) {
        yield invalid(`${at}.model`, model, 'has no PCI controller that it can be plugged into')
      } else if (model === 'pci-bridge' && own !== undefined && bus !== undefined && bus >= own) {
        const message = `must be less than ${own}, the index of the bridge: buses are found one after the other`
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
  'The 64-bit PCI hole is that of the root bus.',
  ({ type, model, pcihole64 }, at) =>
    pcihole64 === undefined || (type === 'pci' && isRoot(model))
      ? []
      : [forbidden(`${at}.pcihole64`, undefined, 'may be given for pci-root and pcie-root only')],
  example(
    { devices: { controllers: [{ type: 'pci', index: 1, model: 'pci-bridge', pcihole64: { value: 1024 } }] } },
    { devices: { controllers: [{ type: 'pci', index: 0, model: 'pci-root', pcihole64: { value: 1024 } }] } },
  ),
)

export const pciControllerRules: readonly Rule[] = [pciRootModel, pciRoot, pciControllerOptions, pciOrder, pciHole]
