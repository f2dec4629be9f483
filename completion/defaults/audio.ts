import { append, list, type DeviceOf, type Rule } from './rule.ts'

type AudioType = NonNullable<DeviceOf<'audios'>['type']>

export const audio: Rule = {
  name: 'audio',
  description: 'Sound goes where the screen goes, if that can have it: to SPICE or SDL; otherwise nowhere.',
  apply: (domain) => {
    const { devices } = domain
    if (!devices || list(domain, 'audios').length > 0) return []
    const graphics = list(domain, 'graphics').find(({ type }) => type !== undefined && type !== 'egl-headless')
    const type: AudioType = graphics?.type === 'spice' ? 'spice' : graphics?.type === 'sdl' ? 'sdl' : 'none'
    return [append(devices, 'audios', { id: 1, type })]
  },
}
