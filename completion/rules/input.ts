import type { Domain } from '../../api/domain/domain.ts'
import { chipsetOf } from '../defaults/machine.ts'
import { eachDevice, type DeviceOf } from './device.ts'
import { forbidden, forbidEach, invalid, required, unsupported } from './finding.ts'
import { example, type Finding } from './rule.ts'

const input = (more: DeviceOf<'inputs'>): Domain => ({ devices: { inputs: [more] } })

const evdevFields = ['dev', 'grab', 'grabToggle', 'repeat']

export const inputDevice = eachDevice('inputs')(
  'input',
  'PS/2 only supports mice and keyboards, and requires its controller; only virtio has a model; passthrough requires virtio; only evdev and passthrough have a source, and require it.',
  ({ type, bus, model, source, address }, at, { domain, originOf }) => {
    const findings: Finding[] = []
    if (type === undefined) return [required(`${at}.type`, 'must be set, e.g. tablet')]
    if (bus === 'ps2' && type !== 'mouse' && type !== 'keyboard') {
      findings.push(
        invalid(`${at}.bus`, bus, `is only supported for mouse and keyboard, not for ${type}`, 'did you mean "usb"?'),
      )
    }
    // libvirt ignores its own PS/2 devices where there is no controller for them.
    if (bus === 'ps2' && originOf(`${at}.type`).by !== 'default') {
      if (domain.features?.ps2?.state === false)
        findings.push(invalid(`${at}.bus`, bus, 'is disabled by features.ps2.state'))
      if (chipsetOf(domain) === 'microvm')
        findings.push(
          invalid(`${at}.bus`, bus, 'is not supported by machine type microvm, which has no PS/2 controller'),
        )
    }
    if (type === 'passthrough' && bus !== 'virtio')
      findings.push(invalid(`${at}.bus`, bus, 'must be virtio for type passthrough'))
    if (model !== undefined && bus !== 'virtio')
      findings.push(forbidden(`${at}.model`, model, `can only be set for bus virtio, not for ${bus}`))
    else if (model !== undefined && model !== 'virtio') {
      findings.push(unsupported(`${at}.model`, model, `must be virtio for type ${type}`))
    }
    if (type === 'evdev' && bus !== undefined)
      findings.push(forbidden(`${at}.bus`, bus, 'must not be set for type evdev, which forwards to other devices'))
    if (bus === 'usb' && address?.type !== undefined && address.type !== 'usb')
      findings.push(invalid(`${at}.address.type`, address.type, 'must be usb for bus usb'))
    if (type === 'passthrough' && source?.evdev === undefined)
      findings.push(required(`${at}.source.evdev`, 'must be set for type passthrough'))
    if (type === 'evdev' && source?.dev === undefined)
      findings.push(required(`${at}.source.dev`, 'must be set for type evdev'))
    if (source !== undefined && type !== 'evdev' && type !== 'passthrough')
      findings.push(
        forbidden(`${at}.source`, undefined, `must not be set for type ${type}, only for evdev and passthrough`),
      )
    if (source !== undefined && type === 'evdev')
      findings.push(
        ...forbidEach(source, `${at}.source`, ['evdev'], 'must not be set for type evdev, whose device file is dev'),
      )
    if (source !== undefined && type === 'passthrough')
      findings.push(
        ...forbidEach(source, `${at}.source`, evdevFields, 'must not be set for type passthrough, only for evdev'),
      )
    return findings
  },
  example(
    input({ type: 'keyboard', bus: 'virtio', model: 'virtio-transitional' }),
    input({ type: 'keyboard', bus: 'virtio', model: 'virtio' }),
  ),
)
