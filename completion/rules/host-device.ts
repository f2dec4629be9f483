import { aliasOf, type HostDevice } from '../../api/host-device.ts'
import type { VirtualMachineSpec } from '../../api/virtual-machine.ts'
import { nameSome } from '../../presets/abridge.ts'
import { list, type DeviceOf } from './device.ts'
import { forbidEach, invalid, required, unsupported } from './finding.ts'
import type { Finding, Rule } from './rule.ts'

type Hostdev = DeviceOf<'hostdevs'>

/** The kinds of which device plugins name the devices that they allocate, and those of DRA drivers. */
const types = ['pci', 'usb', 'mdev']
const claimable = ['pci', 'mdev']

/** What identifies the device, beside its options. */
const identity = ['address', 'vendor', 'product', 'adapter', 'protocol', 'name', 'wwpn', 'hosts', 'host']

const vm = (hostdev: Hostdev): VirtualMachineSpec => ({
  domain: { devices: { hostdevs: [hostdev] } },
  hostDevices: [{ name: 'gpu', resourceName: 'example.com/gpu' }],
})

const gpu: Hostdev = { type: 'pci', alias: { name: 'ua-gpu' } }

type Allocating = Pick<VirtualMachineSpec, 'hostDevices'>

const allocationOf = ({ alias }: Hostdev, { hostDevices = [] }: Allocating): HostDevice | undefined =>
  hostDevices.find((one) => aliasOf(one) === alias?.name)

/** Whether the launcher fills in the source of a host device, from what the node has allocated to the pod. */
export const isAllocated = (hostdev: Hostdev, spec: Allocating): boolean => allocationOf(hostdev, spec) !== undefined

const hostDeviceUsed: Rule = {
  id: 'host-device-used',
  description: 'Each of `hostDevices` must be a host device of the domain, with the alias `ua-NAME`.',
  *check({ spec: { hostDevices = [] }, domain }) {
    const aliases = list(domain, 'hostdevs').flatMap(({ alias }) => alias?.name ?? [])
    for (const [index, device] of hostDevices.entries()) {
      const alias = aliasOf(device)
      const count = aliases.filter((one) => one === alias).length
      const field = `spec.hostDevices[${index}].name`
      const other = aliases.length === 0 ? 'none has an alias' : `they have ${nameSome(aliases)}`
      if (count === 0)
        yield invalid(field, device.name, `no host device in devices.hostdevs has the alias ${alias}; ${other}`)
    }
  },
  example: { breaks: vm({ ...gpu, alias: { name: 'ua-card' }, source: { address: { bus: 6 } } }), holds: vm(gpu) },
}

const hostDeviceSource: Rule = {
  id: 'host-device-source',
  description:
    'A host device of `hostDevices` must be of type pci, usb or mdev, or of type pci or mdev if it is of a claim. Its source is filled in on the node, and libvirt must not manage it.',
  about: ['hostdevs'],
  *check(subject) {
    for (const [index, hostdev] of list(subject.domain, 'hostdevs').entries()) {
      const device = allocationOf(hostdev, subject.spec)
      if (device !== undefined) yield* sourceFindings(hostdev, device, `spec.domain.devices.hostdevs[${index}]`)
    }
  },
  example: { breaks: vm({ ...gpu, source: { address: { bus: 6, slot: 1 } } }), holds: vm(gpu) },
}

function* sourceFindings(
  { type, source = {}, managed }: Hostdev,
  { claim }: HostDevice,
  at: string,
): Iterable<Finding> {
  const possible = claim === undefined ? types : claimable
  if (type === undefined) yield required(`${at}.type`, 'must be set: the kind of device', possible.join(', '))
  else if (!possible.includes(type)) {
    const of = claim === undefined ? 'a device of spec.hostDevices' : 'a device of a claim'
    yield unsupported(`${at}.type`, type, `must be one of ${possible.join(', ')} for ${of}`)
  }
  const message = 'must not be set for a device of spec.hostDevices: the node chooses the device'
  yield* forbidEach(source, `${at}.source`, identity, message)
  if (managed === true) {
    yield invalid(
      `${at}.managed`,
      managed,
      'must be false for a device of spec.hostDevices: its device plugin has detached it',
    )
  }
}

const claimed = (name: string): VirtualMachineSpec => ({
  ...vm(gpu),
  hostDevices: [{ name: 'gpu', claim: { name, request: 'gpu' } }],
  resourceClaims: [{ name: 'gpus', resourceClaimTemplateName: 'gpus' }],
})

const hostDeviceClaim: Rule = {
  id: 'host-device-claim',
  description: 'The `claim` of a host device must be one of `resourceClaims`.',
  *check({ spec: { hostDevices = [], resourceClaims = [] } }) {
    const names = resourceClaims.map(({ name }) => name)
    const known = names.length === 0 ? 'there are none' : `they have ${nameSome(names)}`
    for (const [index, { claim }] of hostDevices.entries()) {
      if (claim === undefined || names.includes(claim.name)) continue
      const message = `spec.resourceClaims has no such claim; ${known}`
      yield invalid(`spec.hostDevices[${index}].claim.name`, claim.name, message)
    }
  },
  example: { breaks: claimed('gpu'), holds: claimed('gpus') },
}

export const hostDeviceRules: readonly Rule[] = [hostDeviceUsed, hostDeviceSource, hostDeviceClaim]
