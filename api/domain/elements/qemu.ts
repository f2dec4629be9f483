import { attribute, child, children, element } from '../description.ts'
import { maxFeatures } from '../limits.ts'
import { oneOf } from '../scalar.ts'
import { environmentName, identifier, line } from '../text.ts'

/** All of this is passed to QEMU unchecked, so all of it reaches the host. */
const host = { reach: 'host' } as const

const arg = element('One argument.', { value: attribute(line(65_536), 'The argument.', host) })
const env = element('One variable of the environment.', {
  name: attribute(environmentName, 'Its name.', host),
  value: attribute(line(65_536), 'Its value.', host),
})

export const qemuCommandline = element("Arguments that are added to QEMU's command line.", {
  args: children('qemu:arg', arg, 'Arguments, in this order.', { ...host, whole: true, maxItems: 1024 }),
  envs: children('qemu:env', env, 'Variables of the environment.', { ...host, key: [['name']] }),
})

const capability = element('One capability.', { capability: attribute(identifier, 'The name in libvirt.', host) })

export const qemuCapabilities = element('QEMU capabilities that libvirt must assume to be present or absent.', {
  adds: children('qemu:add', capability, 'Assumed to be present.', { ...host, maxItems: maxFeatures }),
  dels: children('qemu:del', capability, 'Assumed to be absent.', { ...host, maxItems: maxFeatures }),
})

const property = element('One property of the device.', {
  name: attribute(line(255), 'Its name in QEMU.', host),
  type: attribute(oneOf('string', 'signed', 'unsigned', 'bool', 'remove'), 'The kind of value.', host),
  value: attribute(line(65_536), 'Its value.', host),
})

const frontend = element('The part of the device that the guest sees.', {
  properties: children('qemu:property', property, 'The properties.', { ...host, key: [['name']] }),
})

const device = element('One device.', {
  alias: attribute(identifier, 'The alias of the device.', host),
  frontend: child(frontend, 'The part of the device that the guest sees.', { ...host, xml: 'qemu:frontend' }),
})

export const qemuOverride = element("Properties of devices that override libvirt's.", {
  devices: children('qemu:device', device, 'Each device.', { ...host, key: [['alias']] }),
})

export const qemuDeprecation = element('How QEMU reacts when libvirt uses deprecated features.', {
  behavior: attribute(oneOf('none', 'omit', 'reject', 'crash'), 'The reaction.', host),
})
