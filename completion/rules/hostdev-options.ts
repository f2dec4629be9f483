import type { Domain } from '../../api/domain/domain.ts'
import { virtioModels } from '../../api/domain/elements/virtio.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidden, invalid, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

type Hostdev = DeviceOf<'hostdevs'>

const uuid = '53764d0e-85a0-42b4-af5c-2046b460b1dc'

const hostdevs = (...given: Hostdev[]): Domain => ({ devices: { hostdevs: given } })

const virtio: ReadonlySet<string> = new Set(virtioModels)

const hostdevOptions = eachDevice('hostdevs')(
  'hostdev-options',
  'The options of a host device must be those of its type: `display` requires PCI or vfio-pci and a display server, raw SCSI commands require type scsi.',
  ({ type, model, display, rawio, sgio, boot, source, teaming }, at, { domain }) => {
    const findings: Finding[] = []
    if (model !== undefined && type !== 'mdev' && type !== 'scsi_host') {
      findings.push(forbidden(`${at}.model`, model, 'can only be set for type mdev and scsi_host'))
    }
    if (type === 'mdev' && (model === 'vfio-ccw' || model === 'vfio-ap' || virtio.has(model ?? ''))) {
      findings.push(invalid(`${at}.model`, model, 'must be vfio-pci on x86'))
    }
    if (display !== undefined && type !== 'pci' && (type !== 'mdev' || model !== 'vfio-pci')) {
      findings.push(
        forbidden(`${at}.display`, display, 'can only be set for type pci, and for type mdev with model vfio-pci'),
      )
    } else if (display === true && list(domain, 'graphics').length === 0) {
      findings.push(invalid(`${at}.display`, true, 'requires a display server in devices.graphics'))
    }
    if (type !== 'scsi') {
      for (const [key, value] of Object.entries({ rawio, sgio })) {
        if (value !== undefined) findings.push(forbidden(`${at}.${key}`, value, 'can only be set for type scsi'))
      }
    }
    if (sgio === 'unfiltered') findings.push(unsupported(`${at}.sgio`, sgio, 'is no longer supported', 'filtered'))
    if (type === 'scsi_host' && model !== undefined && !virtio.has(model))
      findings.push(invalid(`${at}.model`, model, `must be one of ${virtioModels.join(', ')} for type scsi_host`))
    if (boot && (type === 'mdev' || type === 'scsi_host'))
      findings.push(forbidden(`${at}.boot`, undefined, `is not supported for type ${type}`))
    if (source?.startupPolicy !== undefined && type !== 'usb')
      findings.push(forbidden(`${at}.source.startupPolicy`, source.startupPolicy, 'can only be set for type usb'))
    if (source?.writeFiltering !== undefined)
      findings.push(unsupported(`${at}.source.writeFiltering`, source.writeFiltering, 'is not supported by QEMU'))
    if (teaming && teaming.type !== 'transient')
      findings.push(invalid(`${at}.teaming.type`, teaming.type, 'must be transient: the interface is persistent'))
    return findings
  },
  example(
    hostdevs({ type: 'mdev', model: 'vfio-pci', display: true, source: { address: { uuid } } }),
    hostdevs({ type: 'mdev', model: 'vfio-pci', display: false, source: { address: { uuid } } }),
  ),
)

const screen = (one: string, ramfb: boolean): Hostdev => ({
  type: 'mdev',
  model: 'vfio-pci',
  display: true,
  ramfb,
  source: { address: { uuid: one } },
})

const hostdevRamfb: Rule = {
  id: 'hostdev-ramfb',
  description: 'At most one host device can set `ramfb`.',
  about: ['ramfb'],
  *check({ domain }) {
    let first: number | undefined
    for (const [index, { ramfb }] of list(domain, 'hostdevs').entries()) {
      if (ramfb !== true) continue
      const field = `spec.domain.devices.hostdevs[${index}].ramfb`
      if (first !== undefined)
        yield duplicate(field, true, `only one host device can set this; hostdevs[${first}] already does`)
      first ??= index
    }
  },
  example: example(
    {
      devices: {
        graphics: [{ type: 'vnc' }],
        hostdevs: [screen(uuid, true), screen(uuid.replace('5', '6'), true)],
      },
    },
    {
      devices: {
        graphics: [{ type: 'vnc' }],
        hostdevs: [screen(uuid, true), screen(uuid.replace('5', '6'), false)],
      },
    },
  ),
}

export const hostdevOptionRules: readonly Rule[] = [hostdevOptions, hostdevRamfb]
