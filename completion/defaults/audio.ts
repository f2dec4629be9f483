import { append, list, type Rule } from './rule.ts'

export const audio: Rule = {
  name: 'audio',
  description:
    'The audio backend is `spice` if the display uses SPICE, otherwise `none`; of several displays (VNC, SPICE, SDL), the last one decides.',
  apply: (domain) => {
    const { devices } = domain
    if (!devices || list(domain, 'audios').length > 0) return []
    const types = list(domain, 'graphics').map(({ type }) => type)
    const shown = types.findLast((type) => type === 'vnc' || type === 'spice' || type === 'sdl') ?? types[0]
    // For SDL and D-Bus displays, QEMU itself selects the audio backend.
    if (shown !== undefined && shown !== 'vnc' && shown !== 'spice') return []
    return [append(devices, 'audios', { id: 1, type: shown === 'spice' ? 'spice' : 'none' })]
  },
}
