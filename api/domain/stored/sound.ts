import { type JsonObject, type Normalization, omit } from './member.ts'

/** What counts of sound cards, and of what they play on. */
export const sound: Normalization = {
  'devices.sounds': (sound) => storedSound(sound),
  'devices.audios.input': (direction) => withFixedSettings(direction),
  'devices.audios.output': (direction) => withFixedSettings(direction),
}

/** Each kind of card has properties of its own. */
const storedSound = (sound: JsonObject): JsonObject => {
  const { model } = sound
  const isIch = model === 'ich6' || model === 'ich9'
  return omit(sound, [
    ...(isIch ? [] : ['codecs']),
    ...(model === 'usb' ? [] : ['multichannel']),
    ...(model === 'virtio' ? [] : ['driver', 'streams']),
  ])
}

/** Settings that are fixed are named, even where none is. */
const withFixedSettings = (direction: JsonObject): JsonObject =>
  direction['fixedSettings'] === true ? { ...direction, settings: direction['settings'] ?? {} } : direction
