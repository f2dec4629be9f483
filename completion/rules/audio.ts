import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, notFound, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const soundAudio: Rule = {
  id: 'sound-audio',
  description: 'A sound card and a display server name an audio backend that is there; ids of backends are unique.',
  about: ['audios', 'audio'],
  *check({ domain }) {
    const ids = new Set<number>()
    for (const [index, { id }] of list(domain, 'audios').entries()) {
      const number = numberOf(id)
      if (number !== undefined && ids.has(number))
        yield duplicate(`spec.domain.devices.audios[${index}].id`, number, 'is the id of another one as well')
      if (number !== undefined) ids.add(number)
    }
    for (const key of ['sounds', 'graphics'] as const) {
      for (const [index, { audio }] of list(domain, key).entries()) {
        // A display server on D-Bus is told of the backends that there are.
        const id = numberOf(audio?.id)
        if (id !== undefined && !ids.has(id))
          yield notFound(`spec.domain.devices.${key}[${index}].audio.id`, id, 'is the id of none of devices.audios')
      }
    }
  },
  example: example(
    { devices: { sounds: [{ model: 'ich9', audio: { id: 2 } }] } },
    { devices: { sounds: [{ model: 'ich9', audio: { id: 1 } }] } },
  ),
}

const soundModel = eachDevice('sounds')(
  'sound-model',
  'A sound card has a model, which QEMU has.',
  ({ model }, at) =>
    model === undefined
      ? [required(`${at}.model`, 'must be given, e.g. ich9')]
      : model === 'ich7'
        ? [unsupported(`${at}.model`, model, 'is no sound card of QEMU', 'did you mean "ich6" or "ich9"?')]
        : [],
  example({ devices: { sounds: [{}] } }, { devices: { sounds: [{ model: 'ac97' }] } }),
)

export const audioRules: readonly Rule[] = [soundModel, soundAudio]
