import { type JsonObject, type Normalization, omit } from './member.ts'

/** What libvirt stores for sound cards and audio backends. */
export const sound: Normalization = {
  'devices.sounds': (sound) => storedSound(sound),
  'devices.audios.input': (direction) => withFixedSettings(direction),
  'devices.audios.output': (direction) => withFixedSettings(direction),
}

/** Omits the properties that do not apply to the model. */
const storedSound = (sound: JsonObject): JsonObject => {
  const { model } = sound
  const isIch = model === 'ich6' || model === 'ich9'
  return omit(sound, [
    ...(isIch ? [] : ['codecs']),
    ...(model === 'usb' ? [] : ['multichannel']),
    ...(model === 'virtio' ? [] : ['driver', 'streams']),
  ])
}

/** libvirt stores `settings` if they are fixed, even if empty. */
const withFixedSettings = (direction: JsonObject): JsonObject =>
  direction['fixedSettings'] === true ? { ...direction, settings: direction['settings'] ?? {} } : direction
