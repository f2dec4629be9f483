import type { Domain } from '../../api/domain/domain.ts'
import { testRule, testSilent } from '../../test/rule-table.ts'
import type { DeviceOf } from './device.ts'

const audios = (...audios: DeviceOf<'audios'>[]): Domain => ({ devices: { audios } })

const sound = (sound: DeviceOf<'sounds'>): Domain => ({ devices: { sounds: [sound] } })

testRule('sound-audio', [
  {
    refused: audios({ id: 1, type: 'none' }, { id: 1, type: 'none' }),
    causes: ['spec.domain.devices.audios[1].id: Duplicate value: 1: is already the id of another audio backend'],
    accepted: audios({ id: 1, type: 'none' }, { id: 2, type: 'none' }),
  },
  {
    refused: sound({ model: 'ich9', audio: { id: 2 } }),
    causes: ['spec.domain.devices.sounds[0].audio.id: Not found: 2: devices.audios has no backend with this id'],
    accepted: sound({ model: 'ich9', audio: { id: 1 } }),
  },
  {
    refused: { devices: { graphics: [{ type: 'vnc', audio: { id: 2 } }] } },
    causes: ['spec.domain.devices.graphics[0].audio.id: Not found: 2: devices.audios has no backend with this id'],
    accepted: { devices: { graphics: [{ type: 'vnc', audio: { id: 1 } }] } },
  },
  {
    refused: { devices: { graphics: [{ type: 'vnc', audio: { id: 1 } }], audios: [{ id: 2, type: 'none' }] } },
    causes: ['spec.domain.devices.graphics[0].audio.id: Not found: 1: devices.audios has no backend with this id'],
    accepted: { devices: { graphics: [{ type: 'vnc' }], audios: [{ id: 2, type: 'none' }] } },
  },
])

testRule('sound-model', [
  {
    refused: sound({}),
    causes: ['spec.domain.devices.sounds[0].model: Required value: must be set; e.g. ich9'],
    accepted: sound({ model: 'ac97' }),
  },
  {
    refused: sound({ model: 'ich7' }),
    causes: [
      'spec.domain.devices.sounds[0].model: Unsupported value: "ich7": is not supported by QEMU; did you mean "ich6" or "ich9"?',
    ],
    accepted: sound({ model: 'ich6' }),
  },
])

type Audio = DeviceOf<'audios'>

const backend = (type: NonNullable<Audio['type']>, more: Audio = {}): Domain => audios({ id: 1, type, ...more })

testRule('audio-fields', [
  {
    refused: backend('none', { driver: 'alsa' }),
    causes: ['spec.domain.devices.audios[0].driver: Forbidden: must not be set for type none, only for sdl'],
    accepted: backend('sdl', { driver: 'alsa' }),
  },
  {
    refused: backend('none', { path: '/a' }),
    causes: ['spec.domain.devices.audios[0].path: Forbidden: must not be set for type none, only for file'],
    accepted: backend('file', { path: '/a' }),
  },
  {
    refused: backend('none', { serverName: 'a' }),
    causes: ['spec.domain.devices.audios[0].serverName: Forbidden: must not be set for type none, only for pulseaudio'],
    accepted: backend('pulseaudio', { serverName: 'a' }),
  },
  {
    refused: backend('none', { runtimeDir: '/a' }),
    causes: ['spec.domain.devices.audios[0].runtimeDir: Forbidden: must not be set for type none, only for pipewire'],
    accepted: backend('pipewire', { runtimeDir: '/a' }),
  },
  {
    refused: backend('none', { tryMMap: true }),
    causes: ['spec.domain.devices.audios[0].tryMMap: Forbidden: must not be set for type none, only for oss'],
    accepted: backend('oss', { tryMMap: true }),
  },
  {
    refused: backend('none', { exclusive: true }),
    causes: ['spec.domain.devices.audios[0].exclusive: Forbidden: must not be set for type none, only for oss'],
    accepted: backend('oss', { exclusive: true }),
  },
  {
    refused: backend('none', { dspPolicy: 1 }),
    causes: ['spec.domain.devices.audios[0].dspPolicy: Forbidden: must not be set for type none, only for oss'],
    accepted: backend('oss', { dspPolicy: 1 }),
  },
  {
    refused: backend('none', { input: { bufferCount: 2 } }),
    causes: [
      'spec.domain.devices.audios[0].input.bufferCount: Forbidden: must not be set for type none, only for coreaudio, oss, sdl',
    ],
    accepted: backend('sdl', { input: { bufferCount: 2 } }),
  },
  {
    refused: backend('none', { input: { dev: '/a' } }),
    causes: ['spec.domain.devices.audios[0].input.dev: Forbidden: must not be set for type none, only for alsa, oss'],
    accepted: backend('oss', { input: { dev: '/a' } }),
  },
  {
    refused: backend('none', { input: { tryPoll: true } }),
    causes: ['spec.domain.devices.audios[0].input.tryPoll: Forbidden: must not be set for type none, only for oss'],
    accepted: backend('oss', { input: { tryPoll: true } }),
  },
  {
    refused: backend('none', { input: { name: 'a' } }),
    causes: [
      'spec.domain.devices.audios[0].input.name: Forbidden: must not be set for type none, only for pulseaudio, pipewire',
    ],
    accepted: backend('pipewire', { input: { name: 'a' } }),
  },
  {
    refused: backend('none', { input: { streamName: 'a' } }),
    causes: [
      'spec.domain.devices.audios[0].input.streamName: Forbidden: must not be set for type none, only for pulseaudio, pipewire',
    ],
    accepted: backend('pipewire', { input: { streamName: 'a' } }),
  },
  {
    refused: backend('none', { input: { latency: 5 } }),
    causes: [
      'spec.domain.devices.audios[0].input.latency: Forbidden: must not be set for type none, only for pulseaudio, pipewire',
    ],
    accepted: backend('pipewire', { input: { latency: 5 } }),
  },
  {
    refused: backend('none', { input: { serverName: 'a' } }),
    causes: ['spec.domain.devices.audios[0].input.serverName: Forbidden: must not be set for type none, only for jack'],
    accepted: backend('jack', { input: { serverName: 'a' } }),
  },
  {
    refused: backend('none', { input: { clientName: 'a' } }),
    causes: ['spec.domain.devices.audios[0].input.clientName: Forbidden: must not be set for type none, only for jack'],
    accepted: backend('jack', { input: { clientName: 'a' } }),
  },
  {
    refused: backend('none', { input: { connectPorts: 'a' } }),
    causes: [
      'spec.domain.devices.audios[0].input.connectPorts: Forbidden: must not be set for type none, only for jack',
    ],
    accepted: backend('jack', { input: { connectPorts: 'a' } }),
  },
  {
    refused: backend('none', { input: { exactName: true } }),
    causes: ['spec.domain.devices.audios[0].input.exactName: Forbidden: must not be set for type none, only for jack'],
    accepted: backend('jack', { input: { exactName: true } }),
  },
  {
    refused: backend('alsa', { output: { dev: '/a', tryPoll: true } }),
    causes: ['spec.domain.devices.audios[0].output.tryPoll: Forbidden: must not be set for type alsa, only for oss'],
    accepted: backend('alsa', { output: { dev: '/a' } }),
  },
])

testSilent('audio-fields', [audios({ id: 1, path: '/a' }), backend('none', { input: { voices: 2, bufferLength: 10 } })])

testRule('audio-format', [
  {
    refused: backend('none', { output: { fixedSettings: true } }),
    causes: [
      'spec.domain.devices.audios[0].output.fixedSettings: Invalid value: true: requires the mixing engine; mixingEngine: true',
    ],
    accepted: backend('none', { output: { fixedSettings: true, mixingEngine: true } }),
  },
  {
    refused: backend('none', { input: { fixedSettings: true, mixingEngine: false } }),
    causes: [
      'spec.domain.devices.audios[0].input.fixedSettings: Invalid value: true: requires the mixing engine; mixingEngine: true',
    ],
    accepted: backend('none', { input: { fixedSettings: false, mixingEngine: false } }),
  },
  {
    refused: backend('none', { input: { mixingEngine: true, settings: { frequency: 44_100 } } }),
    causes: [
      'spec.domain.devices.audios[0].input.fixedSettings: Required value: must be true when settings is set; fixedSettings: true',
    ],
    accepted: backend('none', { input: { mixingEngine: true, fixedSettings: true, settings: { frequency: 44_100 } } }),
  },
])
