import { list } from './device.ts'
import { required } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

const kinds = ['serials', 'parallels', 'consoles', 'channels', 'smartcards', 'redirdevs'] as const

export const spiceGraphics: Rule = {
  id: 'spice-graphics',
  description: 'Devices that connect to the SPICE viewer require graphics of type spice.',
  *check({ domain }): Iterable<Finding> {
    if (list(domain, 'graphics').some(({ type }) => type === 'spice')) return
    for (const kind of kinds) {
      for (const [index, { type }] of list(domain, kind).entries()) {
        if (type !== 'spicevmc' && type !== 'spiceport') continue
        const message = `must have an item of type spice, because ${kind}[${index}] has type ${type}`
        yield required('spec.domain.devices.graphics', message, 'type: spice')
      }
    }
    for (const [index, { backend }] of list(domain, 'rngs').entries()) {
      if (backend?.type !== 'spicevmc' && backend?.type !== 'spiceport') continue
      const message = `must have an item of type spice, because the backend of rngs[${index}] has type ${backend.type}`
      yield required('spec.domain.devices.graphics', message, 'type: spice')
    }
    for (const [index, { type }] of list(domain, 'audios').entries()) {
      if (type !== 'spice') continue
      const message = `must have an item of type spice, because audios[${index}] has type spice`
      yield required('spec.domain.devices.graphics', message, 'type: spice')
    }
  },
  example: example(
    { devices: { redirdevs: [{ bus: 'usb', type: 'spicevmc' }] } },
    { devices: { redirdevs: [{ bus: 'usb', type: 'spicevmc' }], graphics: [{ type: 'spice' }] } },
  ),
}
