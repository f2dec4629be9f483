import type { Domain } from '../../api/domain/domain.ts'
import { testRule } from '../../test/rule-table.ts'
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
