import { append, list, type Rule } from './rule.ts'

export const audio: Rule = {
  name: 'audio',
  description:
    'Sound goes to SPICE where the screen goes there, otherwise nowhere; of VNC, SPICE and a window, the last one decides.',
  apply: (domain) => {
    const { devices } = domain
    if (!devices || list(domain, 'audios').length > 0) return []
    const types = list(domain, 'graphics').map(({ type }) => type)
    const shown = types.findLast((type) => type === 'vnc' || type === 'spice' || type === 'sdl') ?? types[0]
    // QEMU itself decides where the sound of a window or of D-Bus goes.
    if (shown !== undefined && shown !== 'vnc' && shown !== 'spice') return []
    return [append(devices, 'audios', { id: 1, type: shown === 'spice' ? 'spice' : 'none' })]
  },
}
