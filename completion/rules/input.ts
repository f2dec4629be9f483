import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, invalid, required, unsupported } from './finding.ts'
import { example, type Finding } from './rule.ts'

const input = (more: DeviceOf<'inputs'>): Domain => ({ devices: { inputs: [more] } })

export const inputDevice = eachDevice('inputs')(
  'input',
  'A tablet is not on PS/2; models are for virtio, and of mice, tablets and keyboards there is only the plain one.',
  ({ type, bus, model, source, address }, at, { domain, originOf }) => {
    const findings: Finding[] = []
    if (type === undefined) return [required(`${at}.type`, 'must be given, e.g. tablet')]
    if (bus === 'ps2' && type !== 'mouse' && type !== 'keyboard') {
      findings.push(invalid(`${at}.bus`, bus, `is for mouse and keyboard only, not for ${type}`, 'did you mean "usb"?'))
    }
    if (bus === 'ps2' && domain.features?.ps2?.state === false && originOf(`${at}.type`).by !== 'default') {
      findings.push(invalid(`${at}.bus`, bus, 'is switched off: features.ps2.state'))
    }
    if (type === 'passthrough' && bus !== undefined && bus !== 'virtio')
      findings.push(invalid(`${at}.bus`, bus, 'must be virtio for passthrough'))
    if (model !== undefined && bus !== 'virtio')
      findings.push(forbidden(`${at}.model`, model, `may be given for bus virtio only, not for ${bus}`))
    else if (model !== undefined && model !== 'virtio') {
      findings.push(unsupported(`${at}.model`, model, `must be virtio for type ${type}`))
    }
    if (type === 'evdev' && bus !== undefined)
      findings.push(forbidden(`${at}.bus`, bus, 'may not be given for type evdev, which feeds other devices'))
    if (bus === 'usb' && address?.type !== undefined && address.type !== 'usb')
      findings.push(invalid(`${at}.address.type`, address.type, 'must be usb, since the device is on bus usb'))
    if (type === 'passthrough' && source?.evdev === undefined)
      findings.push(required(`${at}.source.evdev`, 'must be given for type passthrough'))
    if (type === 'evdev' && source?.dev === undefined)
      findings.push(required(`${at}.source.dev`, 'must be given for type evdev'))
    return findings
  },
  example(
    input({ type: 'keyboard', bus: 'virtio', model: 'virtio-transitional' }),
    input({ type: 'keyboard', bus: 'virtio', model: 'virtio' }),
  ),
)
