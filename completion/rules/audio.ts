import { numberOf } from '../defaults/reading.ts'
import { eachDevice, list } from './device.ts'
import { duplicate, notFound, required, unsupported } from './finding.ts'
import { example, type Rule } from './rule.ts'

const soundAudio: Rule = {
  id: 'sound-audio',
  description:
    'A sound card or display server must refer to an existing audio backend; ids of audio backends must be unique.',
  about: ['audios', 'audio'],
  *check({ domain }) {
    const ids = new Set<number>()
    for (const [index, { id }] of list(domain, 'audios').entries()) {
      const number = numberOf(id)
      if (number !== undefined && ids.has(number))
        yield duplicate(`spec.domain.devices.audios[${index}].id`, number, 'is already the id of another audio backend')
      if (number !== undefined) ids.add(number)
    }
    for (const key of ['sounds', 'graphics'] as const) {
      for (const [index, { audio }] of list(domain, key).entries()) {
        const id = numberOf(audio?.id)
        if (id !== undefined && !ids.has(id))
          yield notFound(
            `spec.domain.devices.${key}[${index}].audio.id`,
            id,
            'devices.audios has no backend with this id',
          )
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
  'A sound card must have a model that QEMU supports.',
  ({ model }, at) =>
    model === undefined
      ? [required(`${at}.model`, 'must be set', 'e.g. ich9')]
      : model === 'ich7'
        ? [unsupported(`${at}.model`, model, 'is not supported by QEMU', 'did you mean "ich6" or "ich9"?')]
        : [],
  example({ devices: { sounds: [{}] } }, { devices: { sounds: [{ model: 'ac97' }] } }),
)

export const audioRules: readonly Rule[] = [soundModel, soundAudio]
