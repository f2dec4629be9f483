import { append, list, type Rule } from './rule.ts'

export const audio: Rule = {
  name: 'audio',
  description: 'Sound goes to SPICE where the screen goes there, otherwise nowhere.',
  apply: (domain) => {
    const { devices } = domain
    if (!devices || list(domain, 'audios').length > 0) return []
    const types = list(domain, 'graphics').map(({ type }) => type)
    const first = types.find((type) => type === 'vnc' || type === 'spice') ?? types[0]
    // QEMU itself decides where the sound of a window or of D-Bus goes.
    if (first !== undefined && first !== 'vnc' && first !== 'spice') return []
    return [append(devices, 'audios', { id: 1, type: first === 'spice' ? 'spice' : 'none' })]
  },
}
