import { numberOf } from '../defaults/reading.ts'
import type { Domain } from '../../api/domain/domain.ts'
import { eachDevice, list, type DeviceOf } from './device.ts'
import { duplicate, forbidEach, invalid, notFound, required, unsupported } from './finding.ts'
import { example, type Finding, type Rule } from './rule.ts'

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

/** Fields that only some types of backend have. */
const typesOf: { readonly [field: string]: readonly string[] } = {
  driver: ['sdl'],
  path: ['file'],
  serverName: ['pulseaudio'],
  runtimeDir: ['pipewire'],
  tryMMap: ['oss'],
  exclusive: ['oss'],
  dspPolicy: ['oss'],
}

/** Fields of each direction that only some types of backend have. */
const directionTypesOf: { readonly [field: string]: readonly string[] } = {
  bufferCount: ['coreaudio', 'oss', 'sdl'],
  dev: ['alsa', 'oss'],
  tryPoll: ['oss'],
  name: ['pulseaudio', 'pipewire'],
  streamName: ['pulseaudio', 'pipewire'],
  latency: ['pulseaudio', 'pipewire'],
  serverName: ['jack'],
  clientName: ['jack'],
  connectPorts: ['jack'],
  exactName: ['jack'],
}

const directions = ['input', 'output'] as const

const audioFields = eachDevice('audios')(
  'audio-fields',
  'An audio backend must have only the fields of its type.',
  function* (audio, at) {
    const { type } = audio
    if (type === undefined) return
    yield* forbidOthers(audio, at, type, typesOf)
    for (const direction of directions)
      yield* forbidOthers(audio[direction] ?? {}, `${at}.${direction}`, type, directionTypesOf)
  },
  example(
    { devices: { audios: [{ id: 1, type: 'alsa', path: '/sound.wav' }] } },
    { devices: { audios: [{ id: 1, type: 'file', path: '/sound.wav' }] } },
  ),
)

/** Fields of a backend, or of a direction of it, that its type does not have. */
function* forbidOthers(holder: object, at: string, type: string, fields: typeof typesOf): Iterable<Finding> {
  for (const field of Object.keys(holder)) {
    const types = fields[field]
    if (types !== undefined && !types.includes(type))
      yield* forbidEach(holder, at, [field], `must not be set for type ${type}, only for ${types.join(', ')}`)
  }
}

const audioFormat = eachDevice('audios')(
  'audio-format',
  'A fixed format requires the mixing engine of QEMU, and the settings of a format require that it is fixed.',
  function* (audio, at) {
    for (const key of directions) {
      const { fixedSettings, mixingEngine, settings } = audio[key] ?? {}
      if (fixedSettings === true && mixingEngine !== true)
        yield invalid(`${at}.${key}.fixedSettings`, true, 'requires the mixing engine', 'mixingEngine: true')
      if (settings !== undefined && fixedSettings !== true)
        yield required(`${at}.${key}.fixedSettings`, 'must be true when settings is set', 'fixedSettings: true')
    }
  },
  example(recording({ fixedSettings: true }), recording({ fixedSettings: true, mixingEngine: true })),
)

function recording(input: DeviceOf<'audios'>['input'] & object): Domain {
  return { devices: { audios: [{ id: 1, type: 'none', input }] } }
}

export const audioRules: readonly Rule[] = [soundModel, soundAudio, audioFields, audioFormat]
